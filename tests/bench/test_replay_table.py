"""`bench replay` as a command, on a made-up trace."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import numpy as np
import pytest
from typer.testing import CliRunner

from hybridspec.bench.replay import capture_facts
from hybridspec.calibration.trace import Trace
from hybridspec.cli.bench import app
from test_catalogue import PROFILE

SYSTEMS = "ar,length16,dcut,evict,hybridspec:15,auto"


@pytest.fixture
def work(tmp_path):
    rng = np.random.default_rng(0)
    n = 400
    confidence = rng.uniform(0.2, 1.0, (n, 15)).astype(np.float32)
    accepted = (rng.random((n, 15)) < confidence).cumprod(1).sum(1).astype(np.int16)
    experts = np.stack([rng.permutation(8)[:2] for _ in range(n * 3 * 16)]).reshape(n, 3, 16, 2)
    left = np.tile(np.arange(100, 0, -1), 4).astype(np.int32)
    prompt = np.repeat(np.arange(4), 100).astype(np.int32)
    trace = Trace(prompt, left, confidence, 1 - confidence, accepted, experts.astype(np.uint16))
    folder = tmp_path / "p.json.work"
    folder.mkdir()
    trace.save(folder / "trace-0000.npz")
    PROFILE.save(tmp_path / "p.json")
    return folder


def invoke(work, *arguments):
    profile = str(work).removesuffix(".work")
    return CliRunner().invoke(app, ["replay", str(work), "--profile", profile, *arguments])


@pytest.mark.parametrize("cost", ["measured", "paper"])
def test_a_row_a_system_and_an_oracle_above_all(work, tmp_path, cost):
    out = tmp_path / "replay.json"
    got = invoke(work, "--systems", SYSTEMS, "--cost", cost, "--out", str(out))
    assert got.exit_code == 0, got.output
    document = json.loads(got.output.splitlines()[-1])
    assert document == json.loads(out.read_text())
    rows = {row["system"]: row for row in document["rows"]}
    assert list(rows) == [*SYSTEMS.split(","), "oracle (A_D known)", "oracle (experts known)"]
    assert rows["ar"]["speedup"] == pytest.approx(1.0)
    assert rows["length16"]["unverified_per_round"] < 2  # only near the ends of answers
    assert rows["length16"]["unverified_would_be_accepted"] == 0
    drafting = [row["speedup"] for name, row in rows.items() if name != "ar"]
    assert rows["oracle (A_D known)"]["speedup"] == max(drafting)
    assert rows["hybridspec:15"]["speedup"] > rows["length16"]["speedup"]


def test_what_cannot_be_replayed(work, tmp_path):
    for arguments, words in (
        (["--cost", "none"], "measured or paper"),
        (["--systems", "fast"], "unknown"),
    ):
        got = invoke(work, *arguments)
        assert words in str(got.exception), got.output
    empty = tmp_path / "empty.work"
    empty.mkdir()
    profile = str(tmp_path / "p.json")
    got = CliRunner().invoke(app, ["replay", str(empty), "--profile", profile])
    assert "holds no traces" in str(got.exception)
    whole = (work / "trace-0000.npz").read_bytes()
    overwritten = whole[:3000] + b"\xff" * 500 + whole[3500:]
    for damage in (b"no", b"", whole[:1000], overwritten):
        (work / "trace-0001.npz").write_bytes(damage)
        assert "cannot be read" in str(invoke(work).exception)


def test_values_that_no_capture_gives_are_refused(work):
    trace = Trace.load(work / "trace-0000.npz")
    for name, value in (("accepted", -1), ("confidence", np.nan), ("left", 0)):
        array = getattr(trace, name).copy()
        array[3] = value
        replace(trace, **{name: array}).save(work / "trace-0000.npz")
        assert "out of range" in str(invoke(work).exception)


def test_traces_of_another_pair_are_refused(work):
    (work / "about.json").write_text(json.dumps({"pair": {"target": "x", "drafter": "y"}}))
    assert "of another pair" in str(invoke(work).exception)


@pytest.mark.parametrize(
    "text",
    ['{"max_tokens": "x"}', '{"max_tokens": true}', '{"max_tokens": 1}', "[" * 100_000, "[]", "{"],
)
def test_damaged_facts_of_a_capture_are_refused(work, text):
    (work / "about.json").write_text(text)
    assert re.search(r"about\.json is damaged.*calibrate", str(invoke(work).exception))


def test_facts_that_a_full_disk_swallowed_are_none(work):
    (work / "about.json").write_text("")
    assert capture_facts(work) == {}


def test_traces_of_other_shapes_than_the_profile_are_refused(work):
    narrow = replace(PROFILE, n_all_given=((0.0, 1.0),) * 16)
    narrow.save(work.parent / "p.json")
    assert "2 experts a token and the profile's n_all_given serves 1" in str(invoke(work).exception)


def test_traces_that_do_not_belong_together_are_refused(work):
    trace = Trace.load(work / "trace-0000.npz")
    replace(trace, experts=trace.experts[:, :2]).save(work / "trace-0001.npz")
    assert "The traces are of different pairs" in str(invoke(work).exception)
    replace(trace, experts=trace.experts.astype(str)).save(work / "trace-0001.npz")
    assert "its arrays do not belong together" in str(invoke(work).exception)


def test_systems_without_costs_are_left_out_of_the_default_list(work):
    only = replace(PROFILE, cost={"exact/eager": PROFILE.cost["exact/eager"]})
    only.save(work.parent / "p.json")
    got = invoke(work)
    assert got.exit_code == 0, got.output
    assert "Left out, for want of their verifier's costs: dcut, evict\n" in got.output
