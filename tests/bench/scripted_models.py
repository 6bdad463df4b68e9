"""A tiny scripted pair, and made-up traces."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch

from hybridspec.bench.scripted.answers import Answer, Answers
from hybridspec.bench.scripted.check import Expected
from hybridspec.bench.scripted.cycle import Cycle
from hybridspec.bench.scripted.model import Pair
from hybridspec.bench.scripted.shapes import SHAPES, Shape
from hybridspec.bench.scripted.thinning import Thinned, thinned
from hybridspec.bench.scripted.weights import Recipe
from hybridspec.calibration.trace import Trace
from hybridspec.systems import parse_system

OUTSIDE = {3, 60, *range(120, 128)}
TINY = replace(SHAPES["small"].target, vocab_size=128, hidden_size=256)
TINY_SHAPE = Shape(
    replace(TINY, layer_types=TINY.layer_types[:4]),
    replace(SHAPES["small"].drafter, vocab_size=128, hidden_size=256, mask_token_id=120,
            target_layer_ids=(0, 3), num_target_layers=4),
    OUTSIDE,
)  # fmt: skip
RECIPE = Recipe()


def draws(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def tiny_cycle(seed: int = 0) -> Cycle:
    return Cycle.random(TINY.vocab_size, OUTSIDE, draws(seed))


def made_up(n: int, seed: int = 0, answer: int = 50) -> Trace:
    """Answers of `answer` positions. A falls from a round's start on as its drafts are used up, and
    the confidence of every draft says which position it is of."""
    g = np.random.default_rng(seed)
    accepted = np.zeros(n, np.int16)
    at = 0
    while at < n:
        a = min(int(g.geometric(0.3)) - 1, 15)
        accepted[at : at + a + 1] = np.arange(a, -1, -1)[: n - at]
        at += a + 1
    confidence = np.broadcast_to(np.arange(1, n + 1)[:, None] / (n + 1), (n, 15))
    numbers = np.arange(n)
    return Trace(
        (numbers // answer).astype(np.int32), (answer - numbers % answer).astype(np.int32),
        confidence.astype(np.float32), g.random((n, 15)).astype(np.float32) + 0.1, accepted,
        np.zeros((n, 0, 16, 0), np.uint8),
    )  # fmt: skip


def traces() -> dict[tuple[str, str], Thinned]:
    """Two splits of two categories."""
    means = {"coding": 4.0, "math": 3.0}
    return {
        (split, category): thinned(made_up(4000, seed), mean, 1000)
        for seed, split in enumerate(("calibration", "test"))
        for category, mean in means.items()
    }


def tiny_pair(seed: int = 0) -> Pair:
    cpu = torch.device("cpu")
    return Pair.make(TINY_SHAPE, RECIPE, traces(), cpu, torch.float32, seed)


def said(
    answers: Answers, system: str, *, category: str, tokens: int, forget: bool = False
) -> Answer:
    """An answer along a category's test trace."""
    answers.pair.begin(("test", category), answers.length)
    return answers.answer(parse_system(system, 16), tokens, forget=forget)


def expected_of(answers: Answers, *, category: str, tokens: int) -> Expected:
    """The known continuation, and the state of plain decoding there."""
    known = answers.pair.cycle.known(answers.anchor, tokens).tolist()
    return Expected.of(known, said(answers, "ar", category=category, tokens=tokens))
