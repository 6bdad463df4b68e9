"""Profiles: what is written is read, and what cannot be used is refused by name."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from hybridspec import assets
from hybridspec.policy.profile import Cost, Profile, ProfileError, check_belongs, load_profile

PAIR = {"target": "a" * 64, "drafter": "b" * 64}
RUNTIME = {"device": "a CPU", "dtype": "float32", "torch": "2.13.0"}
PROFILE = Profile(
    pair=PAIR,
    runtime=RUNTIME,
    curves_x=((0.1, 0.9), (0.0, 0.5, 1.0)),
    curves_y=((0.2, 0.8), (0.1, 0.5, 0.9)),
    weights=(0.1, 0.2, 0.3, 0.4, 0.5, 0.6),
    cost={"exact/eager": Cost({1: 2.0, 3: 3.0}, (1.0, 0.5, 0.01), 0.75, 1.5, 0.4, 3, 2)},
    draft_ms=(0.5, 0.75),
    s_ms=0.05,
    eta_ms=0.01,
    n_all_mean=(0.0, 3.0, 2.0),
    n_all_given=((0.0, 1.0),) * 3,
    temperatures=(1.0, 1.5),
    data={"rounds": 12},
)


@pytest.fixture
def path(tmp_path):
    PROFILE.save(tmp_path / "profile.json")
    return tmp_path / "profile.json"


def test_what_is_written_is_read(path):
    assert load_profile(path) == PROFILE
    assert list(path.parent.iterdir()) == [path]


def test_the_parts_that_policies_use(path):
    profile = load_profile(path)
    curve = profile.cost["exact/eager"].target_curve(3)
    assert curve.tolist() == pytest.approx([0.25, 0.76, 1.29, 1.84])
    model = profile.acceptance()
    assert model.block == 2
    assert model.curves(torch.tensor([[0.5, 0.25]])).flatten().tolist() == pytest.approx([0.5, 0.3])
    assert profile.tables().given.shape == (3, 2)


@pytest.mark.parametrize(
    "name", ["pair", "cost", "weights", "s_ms", "n_all_given", "temperatures", "data"]
)
def test_a_missing_field_is_named(path, name):
    body = json.loads(path.read_text())
    del body[name]
    path.write_text(json.dumps(body))
    with pytest.raises(ProfileError, match=f"{name}.*calibrate"):
        load_profile(path)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("weights", [1, 2]), ("weights", "abc"), ("curves_x", [[0.1], [0.2]]), ("curves_x", []),
        ("cost", {}), ("cost", []), ("n_all_mean", [1]), ("draft_ms", [1.0]),
        ("s_ms", float("nan")), ("weights", [1, 2, 3, 4, 5, float("inf")]), ("weights", ["1"] * 6),
        ("curves_x", [[0.9, 0.1], [0, 1]]),
        ("n_all_given", [[0.0, 1.0], [0.0], [0.0, 1.0]]),
        ("s_ms", "fast"), ("pair", None),
    ],
)  # fmt: skip
def test_a_damaged_field_is_refused(path, name, value):
    path.write_text(json.dumps(json.loads(path.read_text()) | {name: value}))
    with pytest.raises(ProfileError, match="damaged"):
        load_profile(path)


@pytest.mark.parametrize("text", ["", "{", "[]", "3", '{"schema": "hybridspec.profile/9"}'])
def test_another_file_is_refused(path, text):
    path.write_text(text)
    with pytest.raises(ProfileError, match=r"cannot be read|has the schema"):
        load_profile(path)


def test_a_missing_file_is_refused(tmp_path):
    with pytest.raises(ProfileError, match="No such file"):
        load_profile(tmp_path / "none.json")


def test_a_profile_of_something_else_is_refused_by_name(path):
    check_belongs(PROFILE, PAIR, RUNTIME, path)
    check_belongs(PROFILE, PAIR, RUNTIME | {"torch": "2.99"}, path)
    with pytest.raises(ProfileError, match=r"another drafter.*hybridspec calibrate"):
        check_belongs(PROFILE, PAIR | {"drafter": "c" * 64}, RUNTIME, path)
    with pytest.raises(ProfileError, match="device 'a CPU'; this is 'an H200'"):
        check_belongs(PROFILE, PAIR, RUNTIME | {"device": "an H200"}, path)


def test_a_failed_write_leaves_the_old_one(path, monkeypatch):
    old = path.read_bytes()
    monkeypatch.setattr("pathlib.Path.write_text", _full)
    with pytest.raises(ProfileError, match="No space"):
        replace(PROFILE, s_ms=9.0).save(path)
    monkeypatch.undo()
    assert path.read_bytes() == old


def _full(self, *args, **kwargs):
    raise OSError(28, "No space left on device")


@pytest.mark.parametrize(
    ("name", "value"),
    [("static", 0), ("static", 99), ("static", float("inf")), ("drafts", 0), ("rho", -1.0),
     ("plain_ms", 0), ("quadratic", "123"), ("ms", {"2": -1.0})],
)  # fmt: skip
def test_costs_that_are_none_are_refused(path, name, value):
    body = json.loads(path.read_text())
    body["cost"]["exact/eager"][name] = value
    path.write_text(json.dumps(body))
    with pytest.raises(ProfileError, match="damaged"):
        load_profile(path)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("fixed_ms", -1.0), ("fixed_ms", float("inf")), ("ms", {}), ("ms", {"9": 1.0}),
        ("static", 2.5), ("static", True), ("static", 1), ("static", 4), ("drafts", 3),
        ("drafts", 1.5), ("quadratic", [1.0, 0.0, -1.0]), ("quadratic", [0, 0, 0]),
        ("quadratic", [1e300, 0, 0]), ("quadratic", [3e38, 3e38, 0]), ("rho", 1e300),
    ],
)  # fmt: skip
def test_a_cost_that_no_policy_can_use_is_refused_by_name(path, name, value):
    body = json.loads(path.read_text())
    body["cost"]["exact/eager"][name] = value
    path.write_text(json.dumps(body))
    with pytest.raises(ProfileError, match=rf"damaged: .*exact/eager: .*\b{name}\b"):
        load_profile(path)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("n_all_given", [[0.0]] * 3), ("n_all_given", [[]] * 3),
        ("n_all_given", [[0.0, 1.0], [0.0, 1.0, 2.0], [0.0, 1.0]]),
        ("draft_ms", [-0.5, 0.5]), ("draft_ms", [0.5, float("nan")]), ("s_ms", -1),
        ("eta_ms", -1), ("eta_ms", float("inf")), ("temperatures", [1.0, 0.0]),
        ("curves_y", [[0.2, 1.1], [0.1, 0.5, 0.9]]), ("curves_y", [[-0.2, 0.8], [0.1, 0.5, 0.9]]),
        ("curves_y", [[0.8, 0.2], [0.1, 0.5, 0.9]]), ("curves_x", [[0.1, 1.9], [0, 0.5, 1]]),
        ("curves_x", [[0.9, 0.1], [0, 0.5, 1]]),
    ],
)  # fmt: skip
def test_values_that_no_calibration_gives_are_refused_by_name(path, name, value):
    path.write_text(json.dumps(json.loads(path.read_text()) | {name: value}))
    with pytest.raises(ProfileError, match=rf"damaged: .*\b{name}\b"):
        load_profile(path)


def test_the_profile_in_the_package_loads():
    assert len(load_profile(assets.PROFILE).draft_ms) == 15


def test_a_profile_is_a_regular_file():
    with pytest.raises(ProfileError, match="not a regular file"):
        load_profile(Path("/dev/zero"))
