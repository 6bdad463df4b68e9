"""Pictures of scripted runs: what bars, marks and lines show."""

from __future__ import annotations

import json

import pytest
from matplotlib.collections import LineCollection

from bench.scripted_documents import beside, document
from hybridspec.bench.plot import scripted
from hybridspec.bench.redraw import redraw
from hybridspec.bench.scripted.against import figures

STEMS = ["scripted_speedup", "scripted_rounds", "scripted_tokens"]


def against(distinct: float = 50.0):
    made = beside(distinct=distinct)
    return made | {"against": figures(made)}


def said(figure) -> str:
    return figure.get_supxlabel()


def test_all_three_are_drawn_from_a_folder(tmp_path):
    (tmp_path / "scripted.json").write_text(json.dumps(against()))
    assert [path.stem for path in redraw(tmp_path)] == STEMS
    for stem in STEMS:
        assert (tmp_path / f"{stem}.png").read_bytes().startswith(b"\x89PNG")


def test_bars_are_speed_ups_and_marks_the_paper_s():
    (axes,) = scripted.speedup(document()).axes
    heights = [bar.get_height() for bar in axes.patches]
    # mean, coding, math of 5 tokens in 6 ms and of 4.5 in 4, over 1 in 2
    assert heights == pytest.approx([5 / 3, 2.0, 4 / 3, 2.25, 2.7, 1.8])
    drawn = [c for c in axes.collections if isinstance(c, LineCollection)]
    marks = [c.get_segments()[0][0][1] for c in drawn]
    assert marks == pytest.approx([1.57, 1.56, 1.58, 2.07, 2.05, 2.09])


def test_systems_without_room_are_named():
    more = {f"static:{w}": (3.0, 4.0, float(w)) for w in range(2, 8)}
    figure = scripted.speedup(document(**more))
    assert len(figure.axes[0].patches) == scripted.FEW * 3
    assert "Not shown, to keep bars apart: static:6, static:7." in said(figure)
    assert scripted.speedup({"systems": {"ar": {}}}) is None


def test_rounds_by_length_start_at_a_plain_step():
    figure = scripted.round_time(against())
    lines = {line.get_label(): line for line in figure.axes[0].lines}
    assert [*lines["ours, exact"].get_xdata()] == [*range(1, 17)]
    assert [*lines["ours, exact"].get_ydata()][:2] == [2.0, 2.5]
    assert [*lines["SGLang 0.5.16"].get_xdata()] == [1, 16]
    assert [*lines["SGLang 0.5.16"].get_ydata()] == [4.0, 10.0]
    assert {text.get_text() for text in figure.axes[0].texts} == {"dflash", "hybridspec"}


def test_tokens_a_second_are_in_order_with_sglang_s():
    figure = scripted.tokens(against())
    axes = figure.axes[0]
    names = [label.get_text() for label in axes.get_yticklabels()]
    assert names == ["SGLang ar", "ar", "SGLang dflash16", "dflash", "hybridspec"]
    widths = [bar.get_width() for bar in axes.patches]
    assert widths == pytest.approx([250, 500, 500, 5e3 / 6, 1125])


@pytest.mark.parametrize("picture", [scripted.round_time, scripted.tokens])
def test_pictures_say_where_experts_are_unequal(picture):
    assert "are not equal: SGLang dflash16 40.0, ours 50.0." in said(picture(against(40.0)))
    assert "not equal" not in said(picture(against()))
    assert "Black: SGLang" not in said(scripted.tokens(document()))
