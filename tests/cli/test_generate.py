from __future__ import annotations

import inspect
import io
import re
import sys

import pytest

from disk_pair import CYCLE, SPECIAL, token_id
from hybridspec.cli.generate import generate
from hybridspec.core import Generation, SamplingParams
from hybridspec.engine import CALIBRATED_SYSTEM, DEFAULT_SYSTEM, Engine
from hybridspec.placement import DEFAULT_CONTEXT, DTYPES

SYSTEMS = ("ar", "static:1", "static:2", "static:5", "static:16", "dflash")


def test_defaults_are_those_of_the_engine():
    parameters = inspect.signature(generate).parameters
    params = SamplingParams()
    penalties = ("presence_penalty", "frequency_penalty", "repetition_penalty")
    drawing = ("temperature", "top_k", "top_p", "min_p", "seed")
    for name in ("max_tokens", "ignore_eos", *drawing, *penalties):
        assert parameters[name].default == getattr(params, name)


def test_help_names_the_engine_s_defaults_and_choices(command):
    said = " ".join(command("generate", "--help").out.split())
    assert f"{CALIBRATED_SYSTEM} with a profile, {DEFAULT_SYSTEM} with a drafter alone" in said
    assert f"at most {DEFAULT_CONTEXT}" in said
    assert all(name in said for name in DTYPES)
    assert "W counts target inputs of a round: the anchor and W-1 drafts" in said


def test_text_goes_to_stdout_and_statistics_to_stderr(command, pair):
    got = command("generate", "to x", "--raw", "-n", "29", *pair("cycle").options)
    assert got.code == 0
    assert got.out == ("yzé " + CYCLE)[:28] + "\n"  # é is two tokens
    assert re.fullmatch(
        r"Note: no calibration profile .* static:4; `hybridspec calibrate --help` [^\n]*\n"
        r"29 tokens, [\d.]+ tok/s, \d+ rounds, mean acceptance length \d\.\d\d, "
        r"system static:4, finish reason length\n",
        got.err,
    )


def test_one_token_has_no_decode_speed(command, pair):
    got = command("generate", "x", "--raw", "-n", "1", *pair("cycle").options)
    assert got.out == "y\n"
    said = got.err.splitlines()[-1]
    assert said.startswith("1 tokens, no decode speed, 0 rounds, mean acceptance length 0.00,")


def test_a_named_system_or_a_profile_needs_no_note(command, pair):
    named = command("generate", "x", "--raw", "-n", "2", "--system", "ar", *pair("cycle").options)
    embedded = command("generate", "x", "-n", "2")
    assert named.code == embedded.code == 0
    assert "no calibration profile" not in named.err + embedded.err
    assert "system auto" in embedded.err


@pytest.mark.parametrize(("text", "printed"), [("one\n", "one\n"), ("one", "one\n"), ("", "\n")])
def test_text_ends_with_a_newline(command, pair, monkeypatch, text, printed):
    def follow(stream, show):
        show(text)
        return Generation(text, (1,), "stop", 1, "ar")

    monkeypatch.setattr("hybridspec.cli.generate.follow", follow)
    assert command("generate", "x", *pair("cycle").options).out == printed


@pytest.mark.parametrize("system", SYSTEMS)
def test_every_system_gives_the_same_answer(command, pair, system):
    options = ("generate", "some text", "-n", "40", "--json", *pair("random").options)
    plain = command(*options, "--system", "ar").json
    other = command(*options, "--system", system).json
    same = ("text", "token_ids", "finish_reason", "usage")
    assert [other[key] for key in same] == [plain[key] for key in same]
    assert other["stats"]["system"] == system


def test_a_seeded_answer_depends_on_nothing_but_the_seed(command, pair):
    options = ("generate", "x", "-n", "30", "--temperature", "1", "--json", *pair("random").options)
    drawn = command(*options).json
    seed = drawn["stats"]["seed"]
    assert isinstance(seed, int)
    again = command(*options, "--seed", str(seed), "--system", "ar").json
    assert again["token_ids"] == drawn["token_ids"]
    other = command(*options, "--seed", str(seed ^ 1)).json
    assert other["token_ids"] != drawn["token_ids"]


def test_sampling_options_reach_the_engine(command, pair, monkeypatch):
    seen = []
    stream = Engine.stream

    def spy(self, prompt, params, **settings):
        seen.append((params, settings["system"]))
        return stream(self, prompt, params, **settings)

    monkeypatch.setattr(Engine, "stream", spy)
    flags = (
        "--max-tokens 3 --temperature 0.5 --top-k 9 --top-p 0.8 --min-p 0.1"
        " --seed 18446744073709551615 --stop uv --stop w --stop-token-id 5 --stop-token-id 0"
        " --ignore-eos --system ar"
    )
    assert command("generate", "x", *flags.split(), *pair("random").options).code == 0
    params = SamplingParams(
        max_tokens=3,
        temperature=0.5,
        top_k=9,
        top_p=0.8,
        min_p=0.1,
        seed=2**64 - 1,
        stop=("uv", "w"),
        stop_token_ids=(5, 0),
        ignore_eos=True,
    )
    assert seen == [(params, "ar")]


def test_the_seed_of_a_sampled_answer_is_said(command, pair):
    options = ("generate", "x", "-n", "3", "--temperature", "1", *pair("random").options)
    assert command(*options, "--seed", "77").err.endswith(", seed 77\n")


def test_stop_string_ends_and_cuts(command, pair):
    got = command("generate", "x", "--raw", "--stop", "fgh", "--json", *pair("cycle").options).json
    assert got["text"] == "yzé abcde"
    assert got["finish_reason"] == "stop"
    assert got["token_ids"][-1] == token_id(ord("h"))


def test_end_token_and_ignoring_it(command, pair):
    options = ("generate", "stop here!", "--raw", "-n", "5", "--json", *pair("cycle").options)
    got = command(*options).json
    assert (got["text"], got["finish_reason"]) == ("", "stop")
    assert got["token_ids"] == [token_id("<|im_end|>")]
    assert len(command(*options, "--ignore-eos").json["token_ids"]) == 5


CHAT = "<|im_start|>user\nhello?<|im_end|>\n<|im_start|>assistant\n<think>\n"
NO_THOUGHT = "\n</think>\n\n"
PROMPTS = [
    ((), CHAT + NO_THOUGHT),
    (("--chat", "--no-thinking"), CHAT + NO_THOUGHT),
    (("--thinking",), CHAT),
    (("--system-prompt", "Be é."), "<|im_start|>system\nBe é.<|im_end|>\n" + CHAT + NO_THOUGHT),
    (("--raw",), "hello?"),
    (("--raw", "--no-thinking"), "hello?"),
]


@pytest.mark.parametrize(("flags", "rendered"), PROMPTS)
def test_how_the_prompt_reaches_the_model(command, pair, monkeypatch, flags, rendered):
    prompts = []
    encode = Engine.encode

    def spy(self, *args, **settings):
        prompts.append(encode(self, *args, **settings))
        return prompts[-1]

    monkeypatch.setattr(Engine, "encode", spy)
    got = command("generate", "hello?", *flags, "-n", "1", "--json", *pair("cycle").options).json
    specials = "|".join(re.escape(name) for name in (*SPECIAL, "<think>", "</think>"))
    parts = re.findall(rf"{specials}|.", rendered, re.DOTALL)
    ids = [token_id(unit) for part in parts for unit in ([part] if part[1:] else part.encode())]
    assert prompts == [ids]
    assert got["usage"] == {
        "prompt_tokens": len(ids),
        "completion_tokens": 1,
        "total_tokens": len(ids) + 1,
    }


def test_a_checkpoint_without_a_template_is_prompted_raw(command, pair):
    options = ("generate", "hello", "-n", "1", *pair("flat", template=False).options)
    assert command(*options, "--json").json["usage"]["prompt_tokens"] == 5
    command(*options, "--chat").refused("no chat template", "--raw")
    command(*options, "--system-prompt", "x").refused("--system-prompt", "no chat template")
    command(*options, "--thinking").refused("--thinking", "no chat template")


@pytest.mark.parametrize("flags", [("--thinking",), ("--system-prompt", "Be brief.")])
def test_raw_refuses_options_of_a_chat(command, pair, flags):
    command("generate", "x", "--raw", *flags, *pair("flat").options).refused(flags[0], "--raw")


def test_an_empty_system_prompt_is_refused(command, pair):
    command("generate", "x", "--system-prompt", " ", *pair("flat").options).refused(
        "--system-prompt is empty"
    )


def test_text_outside_the_terminal_s_encoding(pair, monkeypatch):
    """It is replaced in text; JSON is UTF-8 whatever the terminal speaks."""
    from hybridspec.cli.main import run

    for flags, held in (((), b"yz? abc"), (("--json",), "yzé abc".encode())):
        raw = io.BytesIO()
        with monkeypatch.context() as patch:
            patch.setattr(sys, "stdout", io.TextIOWrapper(raw, "ascii"))
            options = ["--raw", "-n", "12", *flags, *pair("cycle").options]
            assert run(["generate", "x", *options]) == 0
            assert held in raw.getvalue()


def test_log_probabilities_are_in_the_document(command, pair):
    options = ("generate", "x", "--raw", "-n", "9", "--json", *pair("cycle").options)
    plain, asked = command(*options).json, command(*options, "--logprobs", "2").json
    assert "logprobs" not in plain
    assert asked["token_ids"] == plain["token_ids"]
    assert [entry["token_id"] for entry in asked["logprobs"]] == plain["token_ids"]
    for entry in asked["logprobs"]:
        assert entry["top"][0] == [entry["token_id"], entry["logprob"]]
        assert len(entry["top"]) == 2


def test_log_probabilities_need_the_document(command):
    got = command("generate", "x", "--logprobs", "2")
    assert (got.code, got.out) == (2, "")
    assert "--json" in got.err
