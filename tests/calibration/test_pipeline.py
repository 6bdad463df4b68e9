"""A whole calibration of a tiny pair: what it writes, and that an interruption loses nothing."""

from __future__ import annotations

import json
import os
from dataclasses import replace

import numpy as np
import pytest

from hybridspec.calibration import calibrate as pipeline
from hybridspec.calibration.calibrate import Plan, calibrate
from hybridspec.calibration.fit import CalibrationError
from hybridspec.calibration.kept import add_row
from hybridspec.calibration.rounds import variants
from hybridspec.calibration.slopes import Slopes
from hybridspec.core import SamplingParams
from hybridspec.policy.profile import load_profile
from scripted import RIGHT, scripted_engine

pytest.importorskip("sklearn", reason="calibration's own extra is not installed")
PAIR = {"target": "a" * 64, "drafter": "b" * 64}
ABOUT = {"pair": PAIR, "runtime": {"device": "cpu", "dtype": "float32"}, "prompts_sha256": "c"}
PROMPTS = [[3, 1, 4, 1, 5], [9, 2, 6]]
PLAN = Plan(PROMPTS, 150, 1, 12, ("exact",), ABOUT, names=("first", "second"))


@pytest.fixture
def engine():
    """Its drafter knows the first answer and errs now and then."""
    engine = scripted_engine()
    plain = engine.generate(PROMPTS[0], SamplingParams(max_tokens=170), system="ar").token_ids
    engine.drafter.script([*PROMPTS[0], *plain], [RIGHT, 9, RIGHT, 14, 2, RIGHT])
    return engine


def test_a_calibration_writes_a_profile_that_loads(engine, tmp_path):
    steps: list[str] = []
    profile = calibrate(engine, PLAN, tmp_path / "work", steps.append)
    assert len(steps) == PLAN.steps
    profile.save(tmp_path / "p.json")
    again = load_profile(tmp_path / "p.json")
    assert again.weights == profile.weights
    cost = again.cost["exact/eager"]
    assert sorted(cost.ms) == list(range(2, 17))
    assert cost.plain_ms > 0
    assert cost.rho > 0
    assert len(again.n_all_mean) == 16
    assert len(again.draft_ms) == 15
    assert again.data["prompts_sha256"] == "c"
    swept = again.data["static_tokens_per_second"]["exact/eager"]
    assert "16" in swept
    assert len(swept) <= 4
    assert str(cost.static) == max(swept, key=swept.__getitem__)
    assert json.loads((tmp_path / "work" / "prompts.json").read_text()) == ["first", "second"]
    assert again.acceptance().block == 15


def test_what_is_done_is_not_run_again(engine, tmp_path, monkeypatch):
    work = tmp_path / "work"
    seen: list[str] = []

    def stop_late(step: str) -> None:
        seen.append(step)
        if step.startswith("Stage 0"):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        calibrate(engine, PLAN, work, stop_late)
    rounds = next(work.glob("times-*")) / "rounds-exact.jsonl"
    lines = rounds.read_text().splitlines()
    assert len(lines) == 20  # plain decoding, 15 lengths, 4 smaller draft calls
    # an interruption in the middle of a line leaves a half
    rounds.write_text("\n".join(lines[:-1]) + "\n[0, 1")
    made = {p: p.stat().st_mtime_ns for p in work.glob("trace-*.npz")}
    calibrate(engine, PLAN, work, seen.append)
    assert {p: p.stat().st_mtime_ns for p in work.glob("trace-*.npz")} == made
    rows = rounds.read_text().splitlines()
    assert rows[:19] == lines[:19]
    assert {tuple(json.loads(row)[1:3]) for row in rows} == set(variants(16))


def test_a_work_folder_of_other_settings_is_refused(engine, tmp_path):
    work = tmp_path / "work"
    work.mkdir()
    (work / "about.json").write_text("{}")
    with pytest.raises(CalibrationError, match="a calibration with other settings"):
        calibrate(engine, PLAN, work, print)


@pytest.fixture
def quick(engine, monkeypatch):
    """Slopes and fits take most of the time and are tested elsewhere."""
    slopes = Slopes(0.1, 0.0, 1.0, {})
    counted = []
    monkeypatch.setattr(pipeline, "measure_slopes", lambda engine: counted.append(1) or slopes)
    monkeypatch.setattr(pipeline, "fit_profile", lambda *fitted: fitted)
    return counted


def measured(work):
    """Times by path, to see what was measured again."""
    return {p: p.stat().st_mtime_ns for p in work.rglob("*") if p.suffix in (".npz", ".jsonl")}


def test_other_threads_are_timed_again_and_nothing_is_captured_again(engine, tmp_path, quick):
    work = tmp_path / "work"
    two = replace(PLAN, machine={"runtime": {"threads": "2"}})
    calibrate(engine, two, work, lambda step: None)
    first = measured(work)
    one = replace(PLAN, machine={"runtime": {"threads": "1"}})
    calibrate(engine, one, work, lambda step: None)
    both = measured(work)
    assert {p: both[p] for p in first} == first
    assert len(list(work.glob("times-*"))) == 2
    calibrate(engine, two, work, lambda step: None)  # back again: all of it is there
    assert measured(work) == both
    assert len(quick) == 2  # slopes: once for each number of threads


def test_another_verifier_is_timed_alone(engine, tmp_path, quick):
    work = tmp_path / "work"
    calibrate(engine, PLAN, work, lambda step: None)
    first = measured(work)
    more = replace(PLAN, verifiers=("exact", "block"))
    _, costs, *_ = calibrate(engine, more, work, lambda step: None)
    assert set(costs) == {"exact/eager", "block/eager"}
    after = measured(work)
    assert {p: after[p] for p in first} == first
    assert {p.name for p in after.keys() - first.keys()} == {"rounds-block.jsonl"}
    assert len(quick) == 1


def test_too_few_rounds_are_said_before_anything_is_timed(engine, tmp_path):
    engine.drafter.script([], ())  # random proposals
    steps: list[str] = []
    with pytest.raises(CalibrationError, match=r"more at draft 15|All drafts were rejected"):
        calibrate(engine, PLAN, tmp_path / "work", steps.append)
    assert {step.partition(",")[0] for step in steps} == {"capture"}


def full(*args, **kwargs):
    raise OSError(28, "No space left on device")


def test_a_full_disk_names_the_file(engine, tmp_path, monkeypatch):
    work = tmp_path / "work"
    monkeypatch.setattr(np, "savez_compressed", full)
    with pytest.raises(CalibrationError, match=r"trace-0000.npz cannot be written: No space"):
        calibrate(engine, PLAN, work, print)
    assert not list(work.glob("trace*"))
    monkeypatch.undo()
    monkeypatch.setattr("pathlib.Path.open", full)
    with pytest.raises(CalibrationError, match=r"rounds-exact.jsonl cannot be written: No space"):
        add_row(work / "rounds-exact.jsonl", (1, 2))


def test_a_full_disk_leaves_a_folder_that_can_be_used(engine, tmp_path, quick, monkeypatch):
    """Of the work folder, and of the times in it."""
    work, fsync = tmp_path / "work", os.fsync
    for written in range(3):  # about.json, prompts.json, about.json of the times
        calls = iter([True] * written)
        monkeypatch.setattr(
            os, "fsync", lambda fd, calls=calls: fsync(fd) if next(calls, False) else full()
        )
        with pytest.raises(CalibrationError, match=r"json cannot be written: No space.*kept"):
            calibrate(engine, PLAN, work, lambda step: None)
        assert all(json.loads(path.read_text()) for path in work.rglob("*.json"))
        monkeypatch.setattr(os, "fsync", fsync)
        (work / "about.json").unlink(missing_ok=True)
    calibrate(engine, PLAN, work, lambda step: None)
    assert len(list(work.rglob("about.json"))) == 2


@pytest.mark.parametrize("mark", ["", '{"pair', "[" * 100_000])
def test_a_mark_that_cannot_be_read_is_written_again(tmp_path, mark):
    (tmp_path / "about.json").write_text(mark)
    pipeline._claim(tmp_path, {"a": 1}, "the pair")
    assert json.loads((tmp_path / "about.json").read_text()) == {"a": 1}
    with pytest.raises(CalibrationError, match="other settings: the pair"):
        pipeline._claim(tmp_path, {"a": 2}, "the pair")


def test_reliability_is_reported_on_prompts_the_fit_did_not_see(engine, tmp_path):
    plan = Plan(PROMPTS * 3, 150, 1, 12, ("exact",), ABOUT)
    data = calibrate(engine, plan, tmp_path / "work", lambda step: None).data
    held = data["reliability"]
    assert set(held) == {"confidence", "isotonic", "model"}
    counts = np.array([n for _, _, n in held["model"]["bins"]])
    assert counts.sum() == sum(data["reached"])  # every prompt is left out once
