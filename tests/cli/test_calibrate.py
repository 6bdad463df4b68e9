"""`hybridspec calibrate` as a command: what it writes, and what it refuses."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from hybridspec import assets
from hybridspec.calibration import calibrate as pipeline
from hybridspec.cli.calibrate import _doubts
from hybridspec.policy.profile import load_profile

pytest.importorskip("sklearn", reason="calibration's own extra is not installed")
SIZES = ("-n", "60", "--timed-prompts", "1", "--timed-tokens", "8", "--verifiers", "exact")


@pytest.fixture
def prompts(tmp_path):
    def write(*categories: str):
        path = tmp_path / "prompts.jsonl"
        rows = [
            {"id": f"p{i}", "category": c, "turns": [f"say {i}"]} for i, c in enumerate(categories)
        ]
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        return path

    return write


def test_too_little_says_what_is_missing(command, pair, prompts, tmp_path):
    out = tmp_path / "p.json"
    got = command("calibrate", "--prompts", str(prompts("a", "b")), "--out", str(out), *SIZES,
                  *pair("random").options)  # fmt: skip
    assert got.code == 2
    assert "All drafts were rejected" in got.err
    assert "check that the drafter belongs to the target" in got.err
    assert "rounds, exact" not in got.err  # said before anything was timed
    assert not out.exists()
    assert (tmp_path / "p.json.work").is_dir()  # what was captured is kept


def test_a_profile_is_written_and_used(command, pair, prompts, tmp_path, monkeypatch):
    """The fit itself is tested elsewhere; here its result comes from a ready trace."""
    out = tmp_path / "p.json"
    fitted = []

    def fit(trace, costs, slopes, about, sweeps):
        fitted.append((len(trace), sorted(costs), slopes.draft_ms > 0))
        return _profile(about)

    monkeypatch.setattr(pipeline, "fit_profile", fit)
    monkeypatch.setattr(pipeline, "check_suffices", lambda trace: None)
    options = pair("random").options
    got = command("calibrate", "--prompts", str(prompts("a", "b")), "--out", str(out), *SIZES,
                  *options)  # fmt: skip
    assert got.code == 0, got.err
    assert got.out.startswith(f"Wrote {out}\nexact/eager: plain")
    assert fitted[0][1:] == (["exact/eager"], True)
    assert fitted[0][0] > 0
    assert set(load_profile(out).pair) == {"target", "drafter"}
    plain = command("generate", "hi", "-n", "20", "--system", "ar", *options).out
    for system in ("hybridspec", "auto", "nominal-only"):
        answer = command("generate", "hi", "-n", "20", "--system", system, "--profile", str(out),
                         *options)  # fmt: skip
        assert (answer.code, answer.out) == (0, plain), answer.err
        assert f"system {system}" in answer.err
    other = pair("flat").options
    refused = command("generate", "hi", "--profile", str(out), *other)
    refused.refused("was made for another target", "hybridspec calibrate")


def _profile(about):
    from dataclasses import replace

    from test_catalogue import PROFILE

    return replace(PROFILE, pair=about["pair"], runtime=about["runtime"])


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        (("--limit", "0"), ("--limit", "at least 1")),
        (("-n", "1"), ("--max-tokens", "at least 2")),
        (("--timed-prompts", "0"), ("--timed-prompts", "at least 1")),
        (("--timed-prompts", "-1"), ("--timed-prompts", "at least 1")),
        (("--timed-tokens", "1"), ("--timed-tokens", "at least 2")),
        (("--verifiers", "exact,fast"), ("--verifiers", "'fast'")),
        (("--split", "test"), ("split",)),
        (("--categories", "z"), ("category 'z'",)),
        (("--categories", "a, z"), ("category 'z'",)),  # a blank is no part of a name
    ],
)
def test_options_that_are_none(command, pair, prompts, tmp_path, changed, words):
    got = command("calibrate", "--prompts", str(prompts("a", "b")), "--out",
                  str(tmp_path / "p.json"), *changed, *pair("random").options)  # fmt: skip
    got.refused(*words)


def test_one_kind_of_text_is_refused_unless_it_is_meant(command, pair, prompts, tmp_path):
    path, out = str(prompts("a", "a")), str(tmp_path / "p.json")
    got = command("calibrate", "--prompts", path, "--out", out, *pair("random").options)
    got.refused("All chosen prompts are of the category 'a'", "--categories")


def test_a_drafter_is_needed(command, pair, prompts, tmp_path):
    options = pair("random").options[:2]
    got = command("calibrate", "--prompts", str(prompts("a", "b")), "--out",
                  str(tmp_path / "p.json"), *options)  # fmt: skip
    got.refused("Calibration needs a drafter")


@pytest.mark.parametrize("where", ["", "/", "/dev/null", "none/p.json", "prompts.jsonl"])
def test_no_profile_can_be_written_there(command, pair, prompts, tmp_path, where, monkeypatch):
    path = prompts("a", "b")
    monkeypatch.chdir(tmp_path)
    before = path.read_bytes()
    got = command("calibrate", "--prompts", str(path), "--out", where, *pair("random").options)
    got.refused("--out")
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["prompts.jsonl"]


def test_a_doubtful_profile_is_said_to_be_one():
    profile = load_profile(assets.PROFILE)
    assert list(_doubts(profile)) == []  # the shipped one
    cost = profile.cost["exact/eager"]
    wild = {w: ms * (1.4 if w % 2 else 0.6) for w, ms in cost.ms.items()}
    reliability = profile.data["reliability"]
    worse = reliability | {"model": reliability["confidence"] | {"ece": 0.5}}
    doubtful = replace(
        profile,
        cost=profile.cost | {"exact/eager": replace(cost, ms=wild)},
        data=profile.data | {"reliability": worse},
    )
    times, model = _doubts(doubtful)
    assert "times of exact/eager lie" in times
    assert "no better than the drafter's raw confidence" in model
