"""Where splits lie, and what the known sizes make of it."""

from __future__ import annotations

import pytest

from hybridspec.kernels.attention.config import AttentionConfig, Cut

DEFAULT = AttentionConfig(64, 32)


@pytest.mark.parametrize(
    ("rows", "splits"),
    [(1, 1), (64, 1), (65, 2), (1024, 16), (1025, 17), (8192, 72), (8193, 73), (32768, 168),
     (32784, 169), (262160, 393)],
)  # fmt: skip
def test_splits_of_a_cache(rows, splits):
    assert DEFAULT.splits(rows) == splits


def test_rungs_follow_each_other():
    assert DEFAULT.rungs() == ((0, 0, 64), (16, 1024, 128), (72, 8192, 256), (168, 32768, 1024))


@pytest.mark.parametrize(
    ("heads", "kv", "size", "expected"),
    [
        (16, 2, 256, AttentionConfig(16, 64)),
        (32, 2, 256, AttentionConfig(16, 64)),
        (32, 8, 128, AttentionConfig(16, 64)),
        (8, 4, 32, AttentionConfig(16, 64)),
        (3, 3, 16, AttentionConfig(16, 64)),
    ],
)
def test_the_cut_of_known_sizes(heads, kv, size, expected):
    assert AttentionConfig.choose(heads, kv, size) == expected


@pytest.mark.parametrize(
    ("tile", "heads", "kv", "clipped", "tiles"),
    [(64, 16, 2, 64, 2), (128, 16, 2, 128, 1), (16, 32, 2, 16, 16), (64, 4, 4, 16, 1),
     (64, 9, 3, 64, 1), (16, 32, 1, 32, 16)],
)  # fmt: skip
def test_tiles_hold_whole_rows_and_all_of_them(tile, heads, kv, clipped, tiles):
    cut = Cut.of(AttentionConfig(tile, 32), heads, kv, 64, 100)
    assert (cut.tile, cut.tiles) == (clipped, tiles)
    assert cut.tile * cut.tiles == 16 * cut.shared
    assert cut.shared >= heads // kv
