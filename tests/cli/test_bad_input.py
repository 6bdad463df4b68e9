"""Bad input gets one sentence and exit code 2: through the whole command, checkpoint included."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from disk_pair import DiskPair

WEIGHTS, CONFIG = "model.safetensors", "config.json"


def edit_weights(folder: Path, change: Callable[[dict[str, torch.Tensor]], object]) -> None:
    tensors = load_file(folder / WEIGHTS)
    change(tensors)
    (folder / WEIGHTS).unlink()
    save_file(tensors, folder / WEIGHTS)


def edit_config(folder: Path, **changes) -> None:
    config = json.loads((folder / CONFIG).read_text())
    (folder / CONFIG).write_text(json.dumps(config | changes))


def truncate(folder: Path) -> None:
    data = (folder / WEIGHTS).read_bytes()
    (folder / WEIGHTS).write_bytes(data[:-100])


def corrupt(folder: Path) -> None:
    data = bytearray((folder / WEIGHTS).read_bytes())
    data[8:40] = b"\xff" * 32  # within the header
    (folder / WEIGHTS).write_bytes(data)


def lose_a_shard(folder: Path) -> None:
    tensors = load_file(folder / WEIGHTS)
    (folder / WEIGHTS).rename(folder / "model-00001-of-00002.safetensors")
    index = {"weight_map": dict.fromkeys(tensors, "model-00001-of-00002.safetensors")}
    index["weight_map"]["lm_head.weight"] = "model-00002-of-00002.safetensors"
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))


def empty(folder: Path) -> None:
    shutil.rmtree(folder)
    folder.mkdir()


def only_a_text(folder: Path) -> None:
    empty(folder)
    (folder / "README.md").write_text("Nothing here.")


def add_a_tensor(folder: Path) -> None:
    edit_weights(folder, lambda t: t.update({"model.language_model.stranger": torch.zeros(2)}))


def drop_a_tensor(folder: Path) -> None:
    edit_weights(folder, lambda t: t.pop("lm_head.weight"))


def plant_nan(folder: Path) -> None:
    edit_weights(folder, lambda t: t["lm_head.weight"][3, 5].fill_(float("nan")))


TARGETS = [
    (shutil.rmtree, ["no checkpoint at"]),
    (empty, ["is empty"]),
    (only_a_text, ["config.json"]),
    (lambda f: (f / "tokenizer.json").unlink(), ["tokenizer.json", "missing"]),
    (lambda f: (f / "tokenizer.json").write_text("{"), ["tokenizer.json"]),
    (lambda f: (f / CONFIG).write_text("{"), ["config.json"]),
    (
        lambda f: edit_config(f, architectures=["LlamaForCausalLM"], model_type="llama"),
        ["llama", "qwen3_5_moe"],
    ),
    (lambda f: edit_config(f, quantization_config={"quant_method": "gptq"}), ["gptq"]),
    (truncate, [WEIGHTS]),
    (corrupt, [WEIGHTS]),
    (lose_a_shard, ["model-00002-of-00002.safetensors"]),
    (add_a_tensor, ["stranger"]),
    (drop_a_tensor, ["lm_head.weight", "missing"]),
    (plant_nan, ["lm_head.weight", "NaN"]),
]


def copied(made: DiskPair, folder: Path) -> DiskPair:
    target = shutil.copytree(made.target, folder / "target")
    return DiskPair(target, shutil.copytree(made.draft, folder / "drafter"))


@pytest.mark.parametrize(("damage", "words"), TARGETS)
def test_a_damaged_target(command, pair, tmp_path, damage, words):
    copy = copied(pair("flat"), tmp_path)
    damage(copy.target)
    command("generate", "x", *copy.options).refused(*words)


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (shutil.rmtree, ["drafter", "no checkpoint at"]),
        (empty, ["drafter", "is empty"]),
        (truncate, [WEIGHTS]),
        (lambda f: edit_config(f, hidden_size=32), ["hidden_size", "32", "64"]),
        (lambda f: edit_config(f, vocab_size=300), ["vocab_size", "300", "264"]),
        (lambda f: edit_weights(f, lambda t: t.pop("fc.weight")), ["fc.weight"]),
    ],
)
def test_a_drafter_that_is_damaged_or_of_another_target(command, pair, tmp_path, damage, words):
    copy = copied(pair("flat"), tmp_path)
    damage(copy.draft)
    command("generate", "x", *copy.options).refused(*words)


def test_the_two_exchanged(command, pair):
    made = pair("flat")
    target, draft = str(made.target), str(made.draft)
    command("generate", "x", "--model", draft).refused(draft, "DFlashDraftModel")
    command("generate", "x", "--model", target, "--draft", target).refused(target, "drafter")


def test_a_model_path_that_is_empty_or_a_file(command, pair):
    command("generate", "x", "--model", "").refused("no checkpoint at ''")
    weights = str(pair("flat").target / WEIGHTS)
    command("generate", "x", "--model", weights).refused(weights, "is a file")


OPTIONS = [
    ("--launcher conveyor", ["--launcher is 'conveyor'", "host or loop"]),
    ("--max-tokens 0", ["--max-tokens is 0", "at least 1"]),
    ("--max-tokens -1", ["--max-tokens is -1", "at least 1"]),
    ("--max-tokens many", ["--max-tokens"]),
    ("--max-tokens 1.5", ["--max-tokens"]),
    ("--temperature -0.1", ["--temperature is -0.1"]),
    ("--temperature nan", ["--temperature is nan"]),
    ("--temperature inf", ["--temperature is inf"]),
    ("--temperature warm", ["--temperature"]),
    ("--top-p 0", ["--top-p is 0.0"]),
    ("--top-p 1.01", ["--top-p is 1.01"]),
    ("--top-p nan", ["--top-p is nan"]),
    ("--top-p x", ["--top-p"]),
    ("--top-k -1", ["--top-k is -1"]),
    ("--top-k x", ["--top-k"]),
    ("--min-p -0.5", ["--min-p is -0.5"]),
    ("--min-p 2", ["--min-p is 2.0"]),
    ("--seed -1", ["--seed is -1", "2^64 - 1"]),
    ("--seed 18446744073709551616", ["--seed is 18446744073709551616"]),
    ("--seed x", ["--seed"]),
    ("--seed nan", ["--seed"]),
    ("--stop-token-id -1", ["--stop-token-id names -1", "263"]),
    ("--stop-token-id 264", ["--stop-token-id names 264", "263"]),
    ("--stop-token-id x", ["--stop-token-id"]),
    ("--system fast", ["'fast'", "ar", "dflash", "static:W"]),
    ("--system static", ["static:5"]),
    ("--system static:0", ["from 1 to 16", "'0'"]),
    ("--system static:17", ["from 1 to 16", "'17'"]),
    ("--system static:x", ["from 1 to 16", "'x'"]),
    ("--system ar:1", ["'ar:1'"]),
    ("--max-context 1", ["--max-context is 1"]),
    ("--max-context 32769", ["--max-context is 32769", "32768"]),
    ("--device tpu9", ["'tpu9'", "cpu"]),
    ("--dtype int4", ["'int4'", "bfloat16"]),
    ("--revision main", ["--revision is 'main'", "no revisions"]),
    ("--draft-revision main", ["--draft-revision is 'main'", "no revisions"]),
    ("--revision=", ["--revision is ''", "a branch, tag or commit"]),
    ("--top-k 5", ["--top-k is 5", "temperature 0", "--temperature"]),
    ("--top-p 0.9", ["--top-p is 0.9", "temperature 0", "--temperature"]),
    ("--min-p 0.1 --temperature 0", ["--min-p is 0.1", "temperature 0", "--temperature"]),
    ("--raw --chat", ["--chat or --raw is given 2 times", "once"]),
    ("--chat --raw --chat", ["--chat or --raw is given 3 times"]),
    ("--thinking --no-thinking", ["--thinking or --no-thinking is given 2 times"]),
    ("--file a --file b", ["--file is given 2 times"]),
    ("--system-prompt a --system-prompt b", ["--system-prompt is given 2 times"]),
    ("-n 4 --max-tokens 5", ["--max-tokens is given 2 times"]),
    ("--bogus", ["--bogus", "--help"]),
    ("more", ["more", "--help"]),
]


@pytest.mark.parametrize(("flags", "words"), OPTIONS)
def test_an_option_out_of_range(command, pair, flags, words):
    command("generate", "x", *pair("flat").options, *flags.split()).refused(*words)


@pytest.mark.parametrize("option", ["--stop", "--system-prompt"])
def test_a_text_that_is_not_utf8(command, pair, option):
    """It could never match, or would be refused later as if it were the prompt."""
    text = os.fsdecode(b"ab\xff")
    command("generate", "x", *pair("flat").options, option, text).refused(
        f"{option} is not valid UTF-8 at byte offset 2 (0xff)"
    )


def test_a_seed_without_a_temperature_is_noted(command, pair):
    flags = ("-n", "2", "--seed", "7", *pair("flat").options)
    got = command("generate", "x", *flags)
    assert got.code == 0
    assert got.err.startswith("Note: --seed has no effect without --temperature above 0")
    assert "--seed has" not in command("generate", "x", *flags, "--temperature", "1").err


def test_options_that_may_be_repeated(command, pair):
    flags = ("--stop", "x", "--stop", "y", "--stop-token-id", "5", "--stop-token-id", "6")
    assert command("generate", "x", "-n", "2", *flags, *pair("flat").options).code == 0


def test_deeply_nested_settings(command, pair, tmp_path):
    for name in ("tokenizer_config.json", "generation_config.json", CONFIG, "tokenizer.json"):
        copy = copied(pair("flat"), tmp_path / name)
        (copy.target / name).write_text("[" * 100_000)
        command("generate", "x", *copy.options).refused(name)


def test_an_empty_stop_string_or_system(command, pair):
    command("generate", "x", *pair("flat").options, "--stop", "").refused("stop", "non-empty")
    command("generate", "x", *pair("flat").options, "--system", "").refused("''", "static:W")


def test_options_are_refused_before_the_weights_are_read(command, pair, tmp_path):
    copy = copied(pair("flat"), tmp_path)
    truncate(copy.target)
    command("generate", "x", *copy.options, "--max-tokens", "0").refused("--max-tokens is 0")
    command("generate", "x", *copy.options, "--system", "static:17").refused("static:5")
    edit_config(copy.draft, hidden_size=32)
    command("generate", "x", *copy.options).refused("hidden_size")


def test_a_system_that_drafts_without_a_drafter(command, pair):
    model = ("--model", str(pair("flat").target))
    for system in ("dflash", "static:5"):
        command("generate", "x", *model, "--system", system).refused(system, "--draft")


def test_a_revision_of_the_embedded_pair(command):
    command("generate", "x", "--revision", "main").refused("the embedded pair has no revisions")


def test_a_prompt_longer_than_the_context(command, pair):
    options = (*pair("flat").options, "--raw", "--max-context", "8")
    command("generate", "x" * 8, *options).refused("8 tokens", "--max-context")
    assert command("generate", "x" * 7, *options).out == "!\n"


def test_logits_that_are_no_numbers(command, pair):
    command("generate", "x", *pair("overflow").options).refused("float32", "weights")


def test_refused_in_the_middle_of_an_answer(command, pair, monkeypatch):
    """What was said stays, and the sentence begins a line."""
    from hybridspec.errors import HybridSpecError
    from hybridspec.runtime.round import Rounds

    def fail(*_):
        raise HybridSpecError("The weights are bad.")

    monkeypatch.setattr(Rounds, "run", fail)
    got = command("generate", "x", "--raw", *pair("cycle").options)
    assert (got.code, got.out, got.err) == (2, "y\n", "Error: The weights are bad.\n")
    got = command("generate", "x", "--raw", "--json", *pair("cycle").options)
    assert (got.code, got.out, got.err) == (2, "", "Error: The weights are bad.\n")
