"""The picture of a round by component."""

from __future__ import annotations

import json

import pytest

from hybridspec.bench.files import CLOCKS, CLOCKS_SCHEMA
from hybridspec.bench.plot.round_components import BANDS, draw
from hybridspec.bench.redraw import redraw
from hybridspec.bench.scripted.clocks.components import PARTS
from hybridspec.errors import RequestError


def document(lengths=(1, 4, 16)):
    def row(w):
        parts = {name: {"median": 0.1 * i + 0.01 * w} for i, name in enumerate(PARTS)}
        return {"w": w, "distinct": 8.0 + w, "parts_ms": parts}

    return {
        "schema": CLOCKS_SCHEMA, "machine": {"cpu": "some CPU", "torch": "2"}, "context": 512,
        "run": {"date": "2026-11-30T12:00:00"},
        "parts": {"components": {"rows": [row(w) for w in lengths]}},
    }  # fmt: skip


def test_every_part_is_in_one_band():
    parts = [part for band in BANDS for part in band.parts]
    assert sorted(parts) == sorted(PARTS)


def test_areas_reach_the_round_and_the_legend_tells_growth():
    figure = draw(document())
    stack, lines = figure.axes
    assert len(stack.collections) == len(BANDS)
    (total,) = stack.lines
    expected = [sum(0.1 * i + 0.01 * w for i in range(len(PARTS))) for w in (1, 4, 16)]
    assert list(total.get_ydata()) == pytest.approx(expected)
    labels = [line.get_label() for line in lines.lines]
    (gdn,) = [label for label in labels if label.startswith("GDN ") and "proj" not in label]
    place = PARTS.index("gdn")
    assert gdn == f"GDN {(0.1 * place + 0.16) / (0.1 * place + 0.01) - 1:+.0%}"


def test_it_is_drawn_from_the_file(tmp_path):
    (tmp_path / CLOCKS).write_text(json.dumps(document()))
    assert [p.name for p in redraw(tmp_path)] == ["round_components.png"]
    (tmp_path / CLOCKS).write_text(json.dumps(document() | {"parts": {}}))
    with pytest.raises(RequestError, match="no measurements"):
        redraw(tmp_path)
