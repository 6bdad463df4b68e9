"""The paper's Table 1: tokens a round (AL) and speed-up (SR) by category, greedy decoding."""

from __future__ import annotations

CATEGORIES = ("coding", "math", "reasoning", "rag", "summarization", "writing", "roleplay")
PAIRS = ("qwen3.6", "qwen3.5")  # the 35B-A3B ones; the first is the default

DFLASH_AL: dict[str, dict[str, float]] = {
    pair: dict(zip(CATEGORIES, row, strict=True))
    for pair, row in {
        "qwen3.6": (5.58, 5.41, 4.79, 5.87, 4.85, 3.66, 3.33),
        "qwen3.5": (6.43, 5.40, 4.91, 6.07, 4.96, 3.92, 3.53),
    }.items()
}
