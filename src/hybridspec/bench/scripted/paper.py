"""What the paper says of the 35B-A3B pairs: Tables 1, 3, 4 and section 4.2; greedy, on one A100.

AL: tokens a round. SR: decode speed over plain decoding's.
"""

from __future__ import annotations

from collections.abc import Iterable
from statistics import fmean

CATEGORIES = ("coding", "math", "reasoning", "rag", "summarization", "writing", "roleplay")
PAIRS = ("qwen3.6", "qwen3.5")  # the first is the default
CORRELATED = (0.45, 0.55)  # of layer 0's new experts with later ones' in real pairs (appendix D.1)

# Table 1: AL and SR of every category in the order above, then their means.
_TABLE_1 = {
    "qwen3.6": {
        "dflash": "5.58 1.56 5.41 1.58 4.79 1.42 5.87 1.63 4.85 1.37 3.66 1.06 3.33 0.99 4.79 1.37",
        "dcut": "5.36 1.66 5.11 1.68 4.58 1.54 5.62 1.71 4.67 1.50 3.53 1.19 3.21 1.12 4.58 1.48",
        "evict": "5.37 1.68 5.17 1.70 4.63 1.58 5.63 1.73 4.72 1.54 3.52 1.21 3.17 1.13 4.60 1.51",
        "replayssm":
            "5.65 1.54 5.49 1.55 4.83 1.39 5.69 1.53 4.87 1.34 3.66 1.04 3.36 0.98 4.79 1.34",
        "evict+replayssm":
            "5.37 1.63 5.18 1.65 4.60 1.53 5.59 1.66 4.69 1.48 3.54 1.18 3.19 1.10 4.59 1.46",
        "hybridspec":
            "5.28 2.05 5.14 2.09 4.62 1.88 5.55 2.07 4.74 1.85 3.50 1.46 3.16 1.39 4.57 1.83",
    },
    "qwen3.5": {
        "dflash": "6.43 1.89 5.40 1.54 4.91 1.43 6.07 1.72 4.96 1.38 3.92 1.13 3.53 1.05 5.03 1.45",
        "dcut": "6.12 1.98 4.97 1.64 4.61 1.54 5.76 1.80 4.65 1.48 3.70 1.26 3.37 1.19 4.74 1.55",
        "evict": "6.18 1.99 5.15 1.69 4.68 1.58 5.88 1.85 4.78 1.54 3.77 1.29 3.36 1.20 4.83 1.59",
        "replayssm":
            "6.41 1.82 5.53 1.54 4.82 1.36 6.04 1.66 4.93 1.34 3.92 1.10 3.51 1.03 5.02 1.41",
        "evict+replayssm":
            "5.94 1.91 5.11 1.65 4.60 1.52 5.69 1.76 4.72 1.50 3.73 1.26 3.33 1.17 4.73 1.54",
        "hybridspec":
            "6.20 2.39 5.10 1.97 4.62 1.87 5.87 2.18 4.80 1.84 3.69 1.51 3.27 1.42 4.79 1.88",
    },
}  # fmt: skip

Cell = tuple[float, float]  # AL, SR


def _row(text: str) -> dict[str, Cell]:
    numbers = [*map(float, text.split())]
    pairs = zip(numbers[::2], numbers[1::2], strict=True)
    return dict(zip((*CATEGORIES, "mean"), pairs, strict=True))


TABLE_1: dict[str, dict[str, dict[str, Cell]]] = {
    pair: {system: _row(text) for system, text in rows.items()} for pair, rows in _TABLE_1.items()
}
DFLASH_AL: dict[str, dict[str, float]] = {
    pair: {category: rows["dflash"][category][0] for category in CATEGORIES}
    for pair, rows in TABLE_1.items()
}


def published(pair: str, system: str, categories: Iterable[str]) -> dict[str, Cell]:
    """A row of Table 1 with these categories alone and their mean; empty if it is not there. Of all
    seven the mean is the published one."""
    row = TABLE_1[pair].get(system)
    if row is None:
        return {}
    cells = {category: row[category] for category in categories}
    if len(cells) == len(CATEGORIES):
        return cells | {"mean": row["mean"]}
    lengths, speeds = zip(*cells.values(), strict=True)
    return cells | {"mean": (fmean(lengths), fmean(speeds))}


# Table 3, of Qwen3.6 alone: mean w, AL, SR, gain of what stands in for a component.
TABLE_3: dict[str, tuple[float, float, float, float]] = {
    "static": (7, 3.99, 1.54, 1.19),
    "length16": (16, 4.77, 1.46, 1.25),
    "nominal-only": (6.1, 4.48, 1.73, 1.06),
    "hybridspec:per-token": (6.2, 4.51, 1.74, 1.05),
    "dflash": (16, 4.79, 1.37, 1.33),
}
# Table 4, of Qwen3.6: ms of a target call by length: total, GDN, MoE, attention, other.
TABLE_4: dict[int, tuple[float, float, float, float, float]] = {
    4: (9.527, 2.498, 5.331, 0.686, 1.019),
    5: (10.055, 2.659, 5.691, 0.696, 1.017),
    6: (10.811, 2.835, 6.248, 0.710, 1.026),
    7: (11.876, 2.984, 7.171, 0.705, 1.026),
    8: (12.648, 3.096, 7.826, 0.698, 1.037),
    10: (14.075, 3.413, 8.934, 0.705, 1.033),
    12: (14.659, 3.734, 9.165, 0.719, 1.050),
    15: (16.078, 4.224, 10.085, 0.722, 1.057),
    16: (16.318, 4.350, 10.187, 0.725, 1.065),
}
# Section 4.2: mean w and ms a round.
ROUNDS: dict[str, dict[str, Cell]] = {
    "qwen3.6": {"dflash": (16, 23.0), "hybridspec": (6.2, 16.3)},
    "qwen3.5": {"dflash": (16, 22.9), "hybridspec": (6.4, 16.5)},
}
POOL = 112_687 * 44 * 1024 + round(1.88 * 2**30)  # D.4: bytes of caches and of states a token
