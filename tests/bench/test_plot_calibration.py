from __future__ import annotations

from dataclasses import replace
from itertools import combinations

import pytest
from matplotlib import rc_context

from bench.test_plot import said, texts
from hybridspec import assets
from hybridspec.bench import plot
from hybridspec.bench.plot import calibration, canvas
from hybridspec.policy.profile import Cost, load_profile

PICTURES = (calibration.reliability, calibration.cost)


@pytest.fixture(scope="module")
def profile():
    return load_profile(assets.PROFILE)


def drawn(picture, profile):
    with rc_context(canvas.STYLE):
        return picture(profile)


def test_reliability_is_that_of_the_profile(profile):
    diagram, positions = drawn(calibration.reliability, profile).axes
    judged = profile.data["reliability"]
    for line, errors, name in zip(diagram.lines, positions.lines, judged, strict=False):
        assert line.get_xydata().tolist() == [bin[:2] for bin in judged[name]["bins"]]
        wanted = [100 * e for e in judged[name]["ece_by_position"]]
        assert errors.get_ydata().tolist() == wanted
    words = said(drawn(calibration.reliability, profile))
    assert f"raw confidence {100 * judged['confidence']['ece']:.1f}%" in words
    assert f"whole model {100 * judged['model']['ece']:.1f}%" in words


def test_without_a_judgement_only_costs_are_drawn(profile, tmp_path):
    small = replace(profile, data={**profile.data, "reliability": {}})
    assert [p.name for p in plot.draw_calibration(small, tmp_path / "p")] == ["p.cost.png"]
    every = plot.draw_calibration(profile, tmp_path / "p")
    assert [p.name for p in every] == ["p.reliability.png", "p.cost.png"]
    assert "<svg" in (tmp_path / "p.reliability.svg").read_text()


def test_costs_are_points_less_the_drafter_with_their_fit(profile):
    ms = {w: 7.0 + 2 * w + (-1) ** w for w in range(2, 17)}
    made = Cost(ms, (7.0, 2.0, 0.0), 3.0, 5.0, 1.0, 4, 8)
    figure = drawn(calibration.cost, replace(profile, cost={"exact/eager": made}))
    target, rounds, drafts = figure.axes
    points, fit = target.lines
    assert points.get_xydata().tolist() == [[w, each - 3.0] for w, each in ms.items()]
    ends = fit.get_xydata()[[0, -1]]
    assert ends.ravel().tolist() == pytest.approx([2, 8, 16, 36])
    assert "exact, 1.00 ms" in said(figure)  # every point is 1 ms off
    assert rounds.lines[0].get_ydata().tolist() == [each / 5.0 for each in ms.values()]
    assert drafts.lines[0].get_ydata().tolist() == list(profile.draft_ms)


@pytest.mark.parametrize("picture", PICTURES)
def test_no_two_words_overlap_and_the_machine_is_named(profile, picture):
    figure = drawn(picture, profile)
    level = [text for text in texts(figure) if not text.get_rotation() % 90]
    boxes = [(text.get_text(), text.get_window_extent()) for text in level]
    for (one, a), (other, b) in combinations(boxes, 2):
        assert not a.overlaps(b), (one, other)
    for word, box in boxes:
        assert figure.bbox.x0 <= box.x0 <= box.x1 <= figure.bbox.x1, word
    words = said(figure)
    assert profile.runtime["cpu"] in words
    counts = f"{profile.data['positions']} positions, {profile.data['rounds']} rounds."
    assert f"Calibration with {profile.data['prompts']} prompts, {counts}" in words
