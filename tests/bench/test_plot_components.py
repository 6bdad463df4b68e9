from __future__ import annotations

from itertools import combinations

import pytest
from matplotlib import rc_context

from bench.paper_table import TABLE, document
from bench.test_plot import said, texts
from hybridspec.bench import plot
from hybridspec.bench.plot import canvas, components


def drawn(found):
    with rc_context(canvas.STYLE):
        return components.draw(found)


def test_bars_stand_on_each_other_at_the_medians():
    stack, _ = drawn(document()).axes
    heights = [[bar.get_height() for bar in bars] for bars in stack.containers]
    for bars, column in zip(heights, zip(*TABLE.values(), strict=True), strict=True):
        assert bars == pytest.approx(column)
    tops = [bar.get_y() + bar.get_height() for bar in stack.containers[-1]]
    assert tops == pytest.approx([sum(times) for times in TABLE.values()])
    assert [text.get_text() for text in stack.texts][:1] == ["5.3"]


def test_points_and_fits_are_those_of_the_document():
    _, lines = drawn(document()).axes
    points = [c.lines[0].get_ydata().tolist() for c in lines.containers]
    assert points[:4] == [list(column) for column in zip(*TABLE.values(), strict=True)]
    gdn, moe = [line for line in lines.lines if line.get_linestyle() == "--"]
    assert [gdn.get_xdata()[0], gdn.get_xdata()[-1]] == [4, 16]
    assert gdn.get_ydata()[-1] == pytest.approx(1.886 + 16 * 0.154, abs=0.01)  # printed digits
    assert moe.get_ydata()[-1] == pytest.approx(2.66 * 4, rel=0.01)  # 16^0.499


def test_growth_stands_in_the_legend():
    words = said(drawn(document()))
    for label in ("GDN +74%", "MoE +91%", "attention +6%", "other +5%", "drafter +3%"):
        assert label in words
    assert "growth, w = 4 to 16" in words
    assert "GDN verifier: per-token." in words


def test_without_drafter_fit_or_growth_the_rest_is_drawn():
    found = document()
    found["growth"], found["fits"] = None, []
    for row in found["lengths"]:
        row |= {"drafter_ms": None, "target_to_drafter": None}
    stack, lines = drawn(found).axes
    assert not stack.texts
    assert not [line for line in lines.lines if line.get_linestyle() == "--"]
    assert drawn({**found, "lengths": []}) is None


def test_no_two_words_overlap_or_leave_the_paper():
    figure = drawn(document())
    level = [text for text in texts(figure) if not text.get_rotation() % 90]
    boxes = [(text.get_text(), text.get_window_extent()) for text in level]
    for (one, a), (other, b) in combinations(boxes, 2):
        assert not a.overlaps(b), (one, other)
    for word, box in boxes:
        assert figure.bbox.x0 <= box.x0 <= box.x1 <= figure.bbox.x1, word


def test_the_picture_is_a_png_and_an_svg(tmp_path):
    (png,) = plot.draw_components(document(), tmp_path)
    assert png == tmp_path / "components.png"
    assert png.read_bytes().startswith(b"\x89PNG")
    assert "<svg" in png.with_suffix(".svg").read_text()
