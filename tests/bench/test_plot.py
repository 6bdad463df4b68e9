from __future__ import annotations

import sys

import pytest

from bench.synthetic import synthetic_results
from hybridspec.bench import plot
from hybridspec.bench.arguments import SWEEP
from hybridspec.errors import HybridSpecError


def test_pictures_are_drawn_as_png_and_svg(tmp_path):
    drawn = plot.draw(synthetic_results(tmp_path, SWEEP), tmp_path)
    stems = ["speedup", "lengths", "acceptance", "round_cost"]
    assert [path.stem for path in drawn] == stems
    for path in drawn:
        assert path.read_bytes().startswith(b"\x89PNG")
        assert "<svg" in path.with_suffix(".svg").read_text()


def test_bars_stand_at_the_speedups(tmp_path):
    results = synthetic_results(tmp_path)
    (axes,) = plot.speedup_figure(results).axes
    labels = [label.get_text() for label in axes.get_xticklabels()]
    assert labels == ["all prompts", "coding", "math", "rag"]
    for container, name in zip(axes.containers, ("static:5", "dflash"), strict=True):
        system = results["systems"][name]
        sets = [system, *system["categories"].values()]
        assert [bar.get_height() for bar in container] == [s["speedup"]["value"] for s in sets]


def test_a_sweep_shows_the_fastest_of_each_kind(tmp_path):
    systems = synthetic_results(tmp_path, SWEEP)["systems"]
    values = {n: s["speedup"]["value"] for n, s in systems.items() if n != "ar"}
    chosen = plot._fastest(list(values), systems)
    assert len(chosen) == plot.BARS
    assert "dflash" in chosen
    best = sorted((n for n in values if n != "dflash"), key=values.get)[-3:]
    assert set(chosen) == {*best, "dflash"}


def test_lengths_go_with_the_speedups_of_static(tmp_path):
    results = synthetic_results(tmp_path, SWEEP)
    (axes,) = plot.lengths_figure(results).axes
    line = next(line for line in axes.lines if line.get_label() == "all prompts")
    assert list(line.get_xdata()) == [2, 3, 4, 5, 6, 7, 8, 12, 16]
    wanted = [results["systems"][f"static:{w}"]["speedup"]["value"] for w in line.get_xdata()]
    assert list(line.get_ydata()) == wanted
    assert plot.lengths_figure(synthetic_results(tmp_path)) is None  # one length is no line


def test_acceptance_is_of_the_longest_system(tmp_path):
    results = synthetic_results(tmp_path)
    bars, curves = plot.acceptance_figure(results).axes
    assert bars.get_title() == "Acceptance of dflash"
    counts = results["systems"]["dflash"]["acceptance_histogram"]
    heights = [bar.get_height() for bar in bars.containers[0]]
    assert heights == [n / sum(counts) for n in counts]
    for line in curves.lines:
        shares = list(line.get_ydata())
        assert shares[0] == 1.0
        assert shares == sorted(shares, reverse=True)


def test_round_costs_are_at_each_systems_own_length(tmp_path):
    (axes,) = plot.cost_figure(synthetic_results(tmp_path, SWEEP)).axes
    points = {c.get_label(): c.lines[0].get_xydata().tolist() for c in axes.containers}
    assert points["ar"] == [[1, pytest.approx(11.0)]]
    assert points["dflash"] == [[16, pytest.approx(26.0)]]
    assert [w for w, _ in points["static"]] == [2, 3, 4, 5, 6, 7, 8, 12, 16]
    assert [ms for _, ms in points["static"]] == pytest.approx(
        [10.0 + w for w, _ in points["static"]]
    )


def test_what_cannot_be_shown_is_left_out(tmp_path):
    results = synthetic_results(tmp_path, ("ar",))
    assert [path.stem for path in plot.draw(results, tmp_path)] == ["round_cost"]


def test_without_matplotlib_there_is_a_sentence(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(HybridSpecError, match=r"--plot needs matplotlib.*pip install matplotlib"):
        plot.check_matplotlib()
