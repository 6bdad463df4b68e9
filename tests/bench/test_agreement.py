"""Replay against a bench of the same answers: a whole run on a tiny pair, and cases by hand."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from hybridspec.bench.agreement import Bench, check_comparable, read_bench, rows, shortened
from hybridspec.bench.clocked import Clocked
from hybridspec.bench.records import Key, Record, TimedRound
from hybridspec.bench.speed import main
from hybridspec.calibration.capture import Capture
from hybridspec.calibration.trace import Trace
from hybridspec.cli.bench import app
from hybridspec.engine import Engine
from hybridspec.errors import RequestError
from hybridspec.policy.length import FixedLength
from hybridspec.profiles import pair_identity, runtime_identity
from test_catalogue import PROFILE

TOKENS = 30


def trace_of(sizes: list[int], accepted: int = 2) -> Trace:
    """Answers of so many positions, in each of which so many drafts are accepted."""
    n = sum(sizes)
    left = np.concatenate([np.arange(size, 0, -1) for size in sizes]).astype(np.int32)
    scores = np.full((n, 15), 0.5, np.float32)
    return Trace(np.repeat(np.arange(len(sizes)), sizes).astype(np.int32), left, scores, scores,
                 np.full(n, accepted, np.int16), np.zeros((n, 1, 16, 1), np.uint16))  # fmt: skip


def record(prompt: str, system: str, tokens: int, seconds: float, repeat: int = 0) -> Record:
    rounds = (TimedRound(1, 0, 1, seconds / tokens, 0, 0, 0),) * tokens
    key = Key(repeat, prompt, system)
    return Record(key, "math", 3, (7,) * (tokens + 1), "length", 0.1, seconds, rounds)


def bench(*records: Record, **setup) -> Bench:
    pair = {"model_sha256": "a", "draft_sha256": "b"}
    return Bench({"max_tokens": 13, "temperature": 0.0, **pair} | setup, records)


def test_speeds_by_hand():
    """Plain decoding at 2 ms a token; static:3 emits 3 a round of 2 + 0.4 x 3 = 3.2 ms."""
    trace = trace_of([12, 12])
    ran = bench(
        *(record(prompt, "ar", 12, seconds) for prompt, seconds in (("p", 0.024), ("q", 0.036))),
        *(record(prompt, "static:3", 12, 0.016) for prompt in "pq"),
    )
    plain, fixed = rows(trace, ["p", "q"], PROFILE, ran, ["ar", "static:3"])
    assert plain["measured_tokens_per_second"] == pytest.approx(24 / 0.06)
    own = plain["policy_ms_per_round"]
    assert plain["predicted_tokens_per_second"] == pytest.approx(1e3 / (2 + own))
    assert plain["deviation_percent"] == pytest.approx(100 * (500 / 400 / (1 + own / 2) - 1))
    assert plain["deviation_percent_to_ar"] == pytest.approx(0)
    own = fixed["policy_ms_per_round"]
    assert fixed["predicted_ms_per_round"] == pytest.approx(3.2 + own)
    assert fixed["predicted_acceptance_length"] == 3
    assert fixed["measured_tokens_per_second"] == pytest.approx(24 / 0.032)


def test_only_answers_of_the_same_length_are_compared():
    trace = trace_of([12, 12])
    ran = bench(
        record("p", "ar", 12, 0.024), record("q", "ar", 11, 9.0), record("z", "ar", 12, 9.0)
    )
    (row,) = rows(trace, ["p", "q"], PROFILE, ran, ["ar"])
    assert (row["answers"], row["answers_left_out"]) == (1, 2)
    assert row["measured_tokens_per_second"] == pytest.approx(500)
    with pytest.raises(RequestError, match=r"No answer of ar .* the same --prompts"):
        rows(trace, ["x", "y"], PROFILE, ran, ["ar"])


def test_answers_without_times_are_refused():
    ran = bench(record("p", "ar", 12, 0.0))
    with pytest.raises(RequestError, match="have no timed rounds"):
        rows(trace_of([12]), ["p"], PROFILE, ran, ["ar"])


@pytest.mark.parametrize(
    "changed",
    [
        {"max_tokens": None}, {"max_tokens": "x"}, {"max_tokens": 0}, {"systems": None},
        {"systems": "ar"}, {"systems": [3]},
    ],
)  # fmt: skip
def test_a_damaged_set_up_is_refused(tmp_path, changed):
    path, setup = tmp_path / "speed.records.jsonl", {"max_tokens": 13, "systems": ["ar"]}
    path.write_text(json.dumps({"kind": "setup", **setup}) + "\n")
    assert read_bench(tmp_path).setup["systems"] == ["ar"]
    for damaged in (setup | changed, {n: v for n, v in setup.items() if n not in changed}):
        path.write_text(json.dumps({"kind": "setup", **damaged}) + "\n")
        with pytest.raises(RequestError, match="is damaged or of another version"):
            read_bench(tmp_path)


def test_a_trace_is_cut_as_its_answers_are():
    cut = shortened(trace_of([5, 12]), 9)
    assert np.bincount(cut.prompt).tolist() == [5, 8]
    assert cut.left.tolist() == [5, 4, 3, 2, 1, 8, 7, 6, 5, 4, 3, 2, 1]


@pytest.mark.parametrize(
    ("setup", "words"),
    [
        ({"model_sha256": "x"}, "another pair"), ({"temperature": 1.0}, "sampled"),
        ({"max_tokens": 200}, "--max-tokens 100"), ({"profile_sha256": "x"}, "another profile"),
    ],
)  # fmt: skip
def test_what_does_not_compare(setup, words):
    check_comparable(bench(), {"max_tokens": 100}, PROFILE)
    with pytest.raises(RequestError, match=words):
        check_comparable(bench(**setup), {"max_tokens": 100}, PROFILE)


def test_the_clock_changes_no_choice():
    clocked = Clocked(FixedLength(4))
    assert (clocked.longest, clocked.lookahead, clocked.scored) == (4, 0, False)
    for _ in range(3):
        assert clocked.drafts() == 3
        choice = clocked.select(None)
        assert clocked.correct(choice, torch.zeros(4, 1)) == 4
        clocked.observe(4, 0, 1.0)
    assert len(clocked.seconds) == 3
    assert clocked.ms > 0


@pytest.fixture
def compared(flat_pair, tmp_path):
    """A profile, its traces and a bench of the same prompts."""
    prompts = tmp_path / "prompts.jsonl"
    texts = {"a": "1 + 1", "b": "Where?"}
    rows = [{"id": i, "category": "math", "turns": [t]} for i, t in texts.items()]
    prompts.write_text("".join(json.dumps(row) + "\n" for row in rows))
    identity = pair_identity(flat_pair.target, flat_pair.draft)
    runtime = runtime_identity(torch.device("cpu"), torch.float32)
    experts = (tuple(float(n) for n in range(9)),) * 16
    profile = replace(PROFILE, pair=identity, runtime=runtime, n_all_given=experts)
    profile.save(tmp_path / "p.json")
    work = tmp_path / "p.json.work"
    work.mkdir()
    engine = Engine.load(flat_pair.target, flat_pair.draft, device="cpu")
    capture = Capture(engine.target, engine.drafter, 192)
    chat = engine.tokenizer.has_chat_template
    for number, text in enumerate(texts.values()):
        ids = engine.encode(text, chat=chat)
        capture.answer(number, ids, engine.defaults.eos_token_ids, 2 * TOKENS).save(
            work / f"trace-{number:04d}.npz"
        )
    (work / "about.json").write_text(json.dumps({"pair": identity, "max_tokens": 2 * TOKENS}))
    (work / "prompts.json").write_text(json.dumps([*texts]))
    out = tmp_path / "bench"
    systems = "ar,static:3,dflash,hybridspec,auto"
    code = main([*flat_pair.options, "--prompts", str(prompts), "--systems", systems, "--device",
                 "cpu", "--max-tokens", str(TOKENS), "--out", str(out), "--profile",
                 str(tmp_path / "p.json")])  # fmt: skip
    assert code == 0
    return tmp_path, work, out


def test_replay_walks_the_rounds_that_were_run(compared):
    folder, work, out = compared
    arguments = ["replay", str(work), "--profile", str(folder / "p.json"), "--against", str(out)]
    got = CliRunner().invoke(app, [*arguments, "--out", str(folder / "agreement.json")])
    assert got.exit_code == 0, got.output
    document = json.loads(got.output.splitlines()[-1])
    assert document == json.loads((folder / "agreement.json").read_text())
    assert [row["system"] for row in document["rows"]] == [
        "ar", "static:3", "dflash", "hybridspec", "auto",
    ]  # fmt: skip
    for row in document["rows"]:
        assert (row["answers"], row["answers_left_out"]) == (2, 0)
        if row["system"] != "auto":  # which learns from times, and those differ
            walked, ran = row["predicted_acceptance_length"], row["measured_acceptance_length"]
            assert walked == pytest.approx(ran), row["system"]
    assert "\nOff by at most 5%: " in got.output
    # what a kill leaves: half a line
    records = out / "speed.records.jsonl"
    records.write_bytes(records.read_bytes() + b'{"kind": "record", "rep')
    again = CliRunner().invoke(app, arguments)
    assert again.exit_code == 0, again.output
    rows = json.loads(again.output.splitlines()[-1])["rows"]
    measured = "measured_tokens_per_second"
    assert [row[measured] for row in rows] == [row[measured] for row in document["rows"]]


def test_what_cannot_be_compared(compared):
    folder, work, out = compared
    arguments = ["replay", str(work), "--profile", str(folder / "p.json"), "--against"]
    got = CliRunner().invoke(app, [*arguments, str(folder / "none")])
    assert "expected the folder of `bench speed`" in str(got.exception)
    got = CliRunner().invoke(app, [*arguments, str(out), "--cost", "paper"])
    assert "compares with measured times" in str(got.exception)
    for names in ('["a"]', '{"a": 1, "b": 2}', "[" * 100_000, None):
        (work / "prompts.json").unlink() if names is None else (work / "prompts.json").write_text(
            names
        )
        got = CliRunner().invoke(app, [*arguments, str(out)])
        assert "does not name all its prompts" in str(got.exception)
    (out / "speed.records.jsonl").write_text('{"kind": "record"}\n')
    got = CliRunner().invoke(app, [*arguments, str(out)])
    assert "is damaged or of another version" in str(got.exception)
