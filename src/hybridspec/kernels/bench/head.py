"""Checks and timings of the head: tokens and scores at a whole vocabulary."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from hybridspec.kernels.bench.checks import compare, same, stream
from hybridspec.kernels.bench.setting import EPS, Setting
from hybridspec.kernels.head import naive
from hybridspec.kernels.head.config import HeadConfig
from hybridspec.kernels.head.head import Answer, Tiles, head
from hybridspec.kernels.linear.norm import Next, Normed

SCORES = 1e-5  # fp32, summed over the vocabulary tile by tile
SPREAD = 4.0  # of the logits: a likeliest token stands out, as in text
PIECE = 1 << 15  # tokens whose weights are held in float64 at once
CONFIGS = [
    HeadConfig(64, 128),
    HeadConfig(64, 128, joined=True),
    HeadConfig(64, 128, end_warps=4),
    HeadConfig(64, 128, end_warps=16),
    HeadConfig(64, 128, stages=3),
    HeadConfig(128, 64),
    HeadConfig(128, 128, warps=8, stages=3),
    HeadConfig(64, 256, stages=3),
    HeadConfig(32, 256, stages=3),
]


def _weight(s: Setting) -> Tensor:
    return s.weight(s.shape.vocabulary, s.shape.hidden).mul_(SPREAD)


def check_head(s: Setting) -> None:
    """Logits, tokens and scores in both forms against float64; repeated; beside damaged rows."""
    v, k = s.shape.vocabulary, s.shape.hidden
    w, (_, normed, after) = _weight(s), stream(s)
    exact = torch.cat([F.linear(normed, piece.double()) for piece in w.split(PIECE)], 1)
    anchor = torch.zeros(1, dtype=torch.int64, device=s.device)
    for c in (HeadConfig.choose(v, k), HeadConfig(64, 128, joined=True)):
        name = "head, joined" if c.joined else "head"
        tiles, answer, logits = Tiles.empty(v, k, s.device, c), Answer.empty(s.device), _logits(s)
        head(after.normed, EPS, w, tiles, answer, logits, config=c, scored=True, **s.options)
        compare(s, f"{name}: logits", logits, exact)
        _check_answer(s, name, answer, logits)
        again = Answer.empty(s.device)
        head(after.normed, EPS, w, tiles, again, anchor=anchor, config=c, **s.options)
        same(s, f"{name}: drafts alone", again.tokens[1:], answer.tokens[1:])
        for i in (0, 3):
            head(_damaged(after, i), EPS, w, tiles, again, config=c, scored=True, **s.options)
            rest = [r for r in range(16) if r % 4 != i]
            others = all(torch.equal(a[rest], b[rest]) for a, b in zip(again, answer, strict=True))
            told = bool((again.tokens[i::4] == -1).all())
            s.keep({"name": f"check {name}: damaged rows from {i}", "ok": others and told})


def _damaged(after: Next, first: int) -> Normed:
    """Every fourth row is not a number."""
    scaled, squares = (t.clone() for t in after.normed)
    scaled[first::4] = float("nan")
    return Normed(scaled, squares)


def _check_answer(s: Setting, name: str, answer: Answer, logits: Tensor) -> None:
    """By the law in float64 on the kernel's own logits."""
    wide = logits.double()
    same(s, f"{name}: tokens", answer.tokens, naive.choose(wide))
    same(s, f"{name}: top", answer.top, logits.amax(-1))
    confidence, entropy = naive.score(wide)
    compare(s, f"{name}: confidence", answer.confidence, confidence, SCORES)
    compare(s, f"{name}: entropy", answer.entropy, entropy, SCORES)


def _logits(s: Setting) -> Tensor:
    return s.empty(16, s.shape.vocabulary, dtype=torch.float32)


def time_head(s: Setting) -> None:
    """Tokens alone in every cut; then with scores, and with logits stored."""
    v, k = s.shape.vocabulary, s.shape.hidden
    w, (_, _, after) = _weight(s), stream(s)
    answer, logits = Answer.empty(s.device), _logits(s)

    def one(name: str, c: HeadConfig, stored: Tensor | None, scored: bool) -> None:
        tiles = Tiles.empty(v, k, s.device, c)

        def call() -> None:
            head(after.normed, EPS, w, tiles, answer, stored, config=c, scored=scored,
                 **s.options)  # fmt: skip

        s.timed(name, c, [call] * 3, w.nbytes)

    for c in s.cuts(CONFIGS) or CONFIGS[:1]:
        one("head to tokens", c, None, False)
    for c in s.cuts(CONFIGS[:2]) or CONFIGS[:1]:
        one("head to tokens and scores", c, None, True)
    one("head to logits and tokens", CONFIGS[0], logits, False)
