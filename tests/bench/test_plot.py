from __future__ import annotations

import sys
from itertools import combinations

import pytest
from matplotlib import rc_context
from matplotlib.text import Text

from bench.synthetic import synthetic_results
from hybridspec.bench import plot
from hybridspec.bench.arguments import SWEEP
from hybridspec.bench.plot import acceptance, canvas, chosen, cost, lengths, speedup
from hybridspec.errors import HybridSpecError

TWO = ("ar", "static:4")
SIX = ("ar", "static:3", "static:4", "static:5", "static:6", "dflash")
SEVENTEEN = ("ar", *(f"static:{w}" for w in range(2, 17)), "dflash")
CATEGORIES = ("coding", "math", "rag", "reasoning", "roleplay", "summarization", "writing")
CROWDED = [(s, c) for s in (TWO, SIX, SEVENTEEN) for c in (("math",), CATEGORIES)]


def texts(figure):
    """All that is written in a figure, laid out; ticks beyond the ends of an axis are not."""
    drawn = []

    def draw(text, *arguments, **named):
        drawn.append(text)
        original(text, *arguments, **named)

    original = Text.draw
    with pytest.MonkeyPatch.context() as patch:
        figure.draw_without_rendering()
        patch.setattr(Text, "draw", draw)
        figure.draw_without_rendering()
    return [text for text in drawn if text.get_visible() and text.get_text().strip()]


def said(figure):
    return "\n".join(text.get_text() for text in texts(figure))


def test_pictures_are_drawn_as_png_and_svg(tmp_path):
    drawn = plot.draw(synthetic_results(tmp_path, SWEEP), tmp_path)
    stems = ["speedup", "lengths", "acceptance", "round_cost"]
    assert [path.stem for path in drawn] == stems
    for path in drawn:
        assert path.read_bytes().startswith(b"\x89PNG")
        assert "<svg" in path.with_suffix(".svg").read_text()


def test_chosen_lengths_are_shares_of_the_rounds(tmp_path):
    results = synthetic_results(tmp_path, ("ar", "static:5", "dflash", "evict", "hybridspec"))
    panels = chosen.draw(results).axes
    assert [axes.get_title().split("\n")[0] for axes in panels] == ["evict", "hybridspec"]
    system = results["systems"]["hybridspec"]
    heights = {bar.get_x() + bar.get_width() / 2: bar.get_height() for bar in panels[1].patches}
    counts = system["verification_length_histogram"]
    assert heights == pytest.approx({w: 100 * counts[w] / sum(counts) for w in range(1, 17)})
    assert sum(heights.values()) == pytest.approx(100)
    mean = system["mean_verification_length"]
    assert list(panels[1].lines[0].get_xdata()) == [mean, mean]


def test_a_verifier_makes_another_kind():
    names = ("static:5", "static:6:block", "hybridspec", "hybridspec:per-token", "specdecpp:0.5")
    kinds = [canvas.kind(n) for n in names]
    assert kinds == [
        "static",
        "static block",
        "hybridspec",
        "hybridspec:per-token",
        "specdecpp:0.5",
    ]
    assert len(set(canvas.kind_colours(names).values())) == len(names) + 1  # and grey for ar


def test_fixed_lengths_are_not_drawn_as_chosen(tmp_path):
    fixed = ("ar", "static:5", "dflash", "length16", "replayssm")
    assert chosen.draw(synthetic_results(tmp_path, fixed)) is None


def test_bars_stand_at_the_speedups(tmp_path):
    results = synthetic_results(tmp_path)
    (axes,) = speedup.draw(results).axes
    labels = [label.get_text() for label in axes.get_xticklabels()]
    assert labels == ["all prompts", "coding", "math", "rag"]
    for container, name in zip(axes.containers, ("static:5", "dflash"), strict=True):
        system = results["systems"][name]
        sets = [system, *system["categories"].values()]
        assert [bar.get_height() for bar in container] == [s["speedup"]["value"] for s in sets]


@pytest.mark.parametrize(("systems", "categories"), CROWDED)
def test_every_system_is_shown_with_its_speedup(tmp_path, systems, categories):
    results = synthetic_results(tmp_path, systems, categories)
    words = said(speedup.draw(results))
    for name in systems[1:]:
        assert name in words
        assert f"{results['systems'][name]['speedup']['value']:.2f}" in words
    assert "Not shown" not in words


def test_many_systems_have_a_row_each_and_a_number_for_each_category(tmp_path):
    results = synthetic_results(tmp_path, SEVENTEEN)
    bars, cells = speedup.draw(results).axes
    assert [label.get_text() for label in bars.get_yticklabels()] == list(SEVENTEEN[1:])
    shown = [results["systems"][name] for name in SEVENTEEN[1:]]
    assert [b.get_width() for b in bars.containers[0]] == [s["speedup"]["value"] for s in shown]
    wanted = [f"{c['speedup']['value']:.2f}" for s in shown for c in s["categories"].values()]
    assert [text.get_text() for text in cells.texts] == wanted


def test_a_system_without_a_speed_is_named_as_not_shown(tmp_path):
    results = synthetic_results(tmp_path, SIX)
    results["systems"]["static:4"]["speedup"] = None
    words = said(speedup.draw(results))
    assert "Not shown, no answer with a second token: static:4." in words


@pytest.mark.parametrize(("systems", "categories"), CROWDED)
@pytest.mark.parametrize("picture", [speedup, lengths, acceptance, cost])
def test_no_two_words_overlap_or_leave_the_paper(tmp_path, picture, systems, categories):
    figure = picture.draw(synthetic_results(tmp_path, systems, categories))
    if figure is None:
        assert (picture, len(systems)) == (lengths, 2)
        return
    level = [text for text in texts(figure) if not text.get_rotation() % 90]
    boxes = [(text.get_text(), text.get_window_extent()) for text in level]
    for (one, a), (other, b) in combinations(boxes, 2):
        assert not a.overlaps(b), (one, other)
    for word, box in boxes:
        assert figure.bbox.x0 <= box.x0 <= box.x1 <= figure.bbox.x1, word
        assert figure.bbox.y0 <= box.y0 <= box.y1 <= figure.bbox.y1, word


@pytest.mark.parametrize("picture", [speedup, lengths, acceptance, cost])
def test_every_picture_names_machine_units_and_work(tmp_path, picture):
    figure = picture.draw(synthetic_results(tmp_path, SIX))
    words = " ".join(said(figure).split())
    assert "A processor, 4 cores, threads: 2, float32 on cpu, torch 2.13" in words
    assert "9 chat prompts, greedy, answers of at most 41 tokens, repeats: 1; 2026-01-01" in words
    for axes in figure.axes:
        assert axes.get_xlabel() or axes.get_xticklabels()
        assert axes.get_title()
    units = {
        speedup: "decode tokens/s over those of ar (×)",  # noqa: RUF001
        lengths: "decode tokens/s over those of ar (×)",  # noqa: RUF001
        acceptance: "acceptance length (mean tokens a round)",
        cost: "time of a round (ms)",
    }
    assert units[picture] in words


def test_a_gpu_is_named(tmp_path):
    results = synthetic_results(tmp_path)
    results["setup"]["gpu"] = "NVIDIA H200"
    assert "NVIDIA H200, A processor" in said(speedup.draw(results))


def test_names_of_any_kind_can_be_drawn(tmp_path):
    names = ("$x^{$", "_hidden", "a & <b>", "a name that goes on and on and on")
    results = synthetic_results(tmp_path, SEVENTEEN, names)
    assert len(plot.draw(results, tmp_path)) == 4
    with rc_context(canvas.STYLE):
        (legend,) = lengths.draw(results).legends
    words = [text.get_text() for text in legend.get_texts()]
    assert words[:4] == ["$x^{$", " _hidden", "a & <b>", "a name that goes on…"]


def test_lengths_go_with_the_speedups_of_static(tmp_path):
    results = synthetic_results(tmp_path, SWEEP)
    (axes,) = lengths.draw(results).axes
    line = next(line for line in axes.lines if line.get_label() == "all prompts (95%)")
    assert list(line.get_xdata()) == [2, 3, 4, 5, 6, 7, 8, 12, 16]
    wanted = [results["systems"][f"static:{w}"]["speedup"]["value"] for w in line.get_xdata()]
    assert list(line.get_ydata()) == wanted
    assert lengths.draw(synthetic_results(tmp_path / "one")) is None  # one length is no line


def test_verifiers_of_static_are_kinds_of_their_own(tmp_path):
    blocks = ("static:4:block", "static:5:block")
    systems = ("ar", "static:3", "static:4", "static:5", *blocks)
    results = synthetic_results(tmp_path, systems)
    (axes,) = lengths.draw(results).axes
    line = next(line for line in axes.lines if line.get_label() == "all prompts, static block")
    wanted = [(int(n[7]), results["systems"][n]["speedup"]["value"]) for n in blocks]
    assert line.get_xydata().tolist() == [list(point) for point in wanted]
    (axes,) = cost.draw(results).axes
    points = {c.get_label(): [w for w, _ in c.lines[0].get_xydata()] for c in axes.containers}
    assert points == {"ar": [1], "static": [3, 4, 5], "static block": [4, 5]}
    assert canvas.kind("static:4:exact") == "static"


def test_acceptance_is_that_of_every_system_and_of_the_longest(tmp_path):
    results = synthetic_results(tmp_path)
    bars, curves = acceptance.draw(results).axes
    names = [label.get_text() for label in bars.get_yticklabels()]
    assert names == ["ar", "static:5", "dflash"]
    wanted = [results["systems"][name]["mean_acceptance_length"] for name in names]
    assert [bar.get_width() for bar in bars.containers[0]] == wanted
    assert curves.get_title() == "How many drafts a round of dflash accepts"
    for line in curves.lines:
        shares = list(line.get_ydata())
        assert shares[0] == 1.0
        assert shares == sorted(shares, reverse=True)
    counts = results["systems"]["dflash"]["acceptance_histogram"]
    assert curves.lines[-1].get_ydata()[1] == sum(counts[1:]) / sum(counts)


def test_curves_end_at_the_longest_round(tmp_path):
    _, curves = acceptance.draw(synthetic_results(tmp_path, TWO)).axes
    assert {len(line.get_xdata()) for line in curves.lines} == {4}


def test_round_costs_are_at_each_systems_own_length(tmp_path):
    (axes,) = cost.draw(synthetic_results(tmp_path, SWEEP)).axes
    points = {c.get_label(): c.lines[0].get_xydata().tolist() for c in axes.containers}
    assert points["ar"] == [[1, pytest.approx(11.0)]]
    assert points["dflash"] == [[16, pytest.approx(26.0)]]
    assert [w for w, _ in points["static"]] == [2, 3, 4, 5, 6, 7, 8, 12, 16]
    assert [ms for _, ms in points["static"]] == pytest.approx(
        [10.0 + w for w, _ in points["static"]]
    )


def test_a_system_with_few_rounds_is_named_as_not_shown(tmp_path):
    results = synthetic_results(tmp_path)
    for row in results["round_costs"]:
        row["rounds"] = 7 if row["system"] == "dflash" else row["rounds"]
    assert "Not shown, fewer than 8 whole rounds: dflash." in said(cost.draw(results))


def test_what_cannot_be_shown_is_left_out(tmp_path):
    results = synthetic_results(tmp_path, ("ar",))
    assert [path.stem for path in plot.draw(results, tmp_path)] == ["round_cost"]


def test_a_folder_that_cannot_be_written_is_refused(tmp_path):
    with pytest.raises(HybridSpecError, match=r"speedup\.png cannot be written: No such file"):
        plot.draw(synthetic_results(tmp_path), tmp_path / "none")


def test_without_matplotlib_there_is_a_sentence(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(HybridSpecError, match=r"need matplotlib.*\"\.\[plot\]\"` in the project"):
        plot.check_matplotlib()
