"""A whole calibration of a tiny pair: what it writes, and that an interruption loses nothing."""

from __future__ import annotations

import json

import numpy as np
import pytest

from hybridspec.calibration.calibrate import Plan, calibrate
from hybridspec.calibration.fit import CalibrationError
from hybridspec.calibration.rounds import variants
from hybridspec.core import SamplingParams
from hybridspec.policy.profile import load_profile
from scripted import RIGHT, scripted_engine

pytest.importorskip("sklearn", reason="calibration's own extra is not installed")
PAIR = {"target": "a" * 64, "drafter": "b" * 64}
ABOUT = {"pair": PAIR, "runtime": {"device": "cpu", "dtype": "float32"}, "prompts_sha256": "c"}
PROMPTS = [[3, 1, 4, 1, 5], [9, 2, 6]]
PLAN = Plan(PROMPTS, 150, 1, 12, ("exact",), ABOUT)


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
    lines = (work / "rounds-exact.jsonl").read_text().splitlines()
    assert len(lines) == 20  # plain decoding, 15 lengths, 4 smaller draft calls
    # an interruption in the middle of a line leaves a half
    (work / "rounds-exact.jsonl").write_text("\n".join(lines[:-1]) + "\n[0, 1")
    made = {p: p.stat().st_mtime_ns for p in work.glob("trace-*.npz")}
    calibrate(engine, PLAN, work, seen.append)
    assert {p: p.stat().st_mtime_ns for p in work.glob("trace-*.npz")} == made
    rows = (work / "rounds-exact.jsonl").read_text().splitlines()
    assert rows[:19] == lines[:19]
    assert {tuple(json.loads(row)[1:3]) for row in rows} == set(variants(16))


def test_a_work_folder_of_other_settings_is_refused(engine, tmp_path):
    work = tmp_path / "work"
    work.mkdir()
    (work / "about.json").write_text("{}")
    with pytest.raises(CalibrationError, match="a calibration with other settings"):
        calibrate(engine, PLAN, work, print)


def test_reliability_is_reported_on_prompts_the_fit_did_not_see(engine, tmp_path):
    plan = Plan(PROMPTS * 3, 150, 1, 12, ("exact",), ABOUT)
    data = calibrate(engine, plan, tmp_path / "work", lambda step: None).data
    held = data["reliability"]
    assert set(held) == {"confidence", "isotonic", "model"}
    counts = np.array([n for _, _, n in held["model"]["bins"]])
    assert counts.sum() == sum(data["reached"])  # every prompt is left out once
