"""Rounds at every fixed length, timed on real answers; each answer is kept once it is done."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path

from hybridspec.calibration.kept import add_row, read_rows
from hybridspec.calibration.measure import Variant
from hybridspec.core import SamplingParams
from hybridspec.engine import Engine
from hybridspec.model.gdn import Verifier
from hybridspec.policy.length import FixedLength
from hybridspec.systems import System

FEWER = (1, 3, 7, 11)  # drafts asked for besides a whole block, at the shortest length
Samples = dict[Variant, list[tuple[int, float]]]


def variants(block: int) -> list[Variant]:
    """What is timed: plain decoding, every length of a whole block, and smaller draft calls.

    The latter at w = 2: timed in a loop of their own, caches would flatter them.
    """
    drafts = block - 1
    lengths = [(w, drafts) for w in range(2, block + 1)]
    return [(0, 0), *lengths, *((2, m) for m in FEWER if m < drafts)]


def timed_rounds(
    engine: Engine,
    prompts: Sequence[list[int]],
    tokens: int,
    verifier: Verifier,
    path: Path,
    advance: Callable[[str], None],
) -> Samples:
    """(rounds, decode seconds) of each measured answer, by variant.

    Prompt by prompt all variants run in turn, the first of them another one each time. An answer's
    last round, which the limit may cut, counts like the others.

    path: a line an answer, read first: what is there is not run again.
    """
    done = _done(path)
    assert engine.drafter is not None
    every = variants(engine.drafter.config.block_size)
    if not done:
        for variant in every:
            _answer(engine, prompts[0], tokens, variant, verifier)  # warm-up
    for number, ids in enumerate(prompts):
        advance(f"rounds, {verifier}, answer {number + 1}")
        first = number % len(every)
        for variant in every[first:] + every[:first]:
            if (number, variant) not in done:
                done[number, variant] = _answer(engine, ids, tokens, variant, verifier)
                add_row(path, (number, *variant, *done[number, variant]))
    samples: Samples = defaultdict(list)
    for (_, variant), rounds in sorted(done.items()):
        samples[variant].append(rounds)
    return dict(samples)


def _done(path: Path) -> dict[tuple[int, Variant], tuple[int, float]]:
    """What was measured before: rounds and seconds by prompt and variant."""
    return {
        (int(number), (int(w), int(drafts))): (int(rounds), seconds)
        for number, w, drafts, rounds, seconds in read_rows(path, 5)
    }


def _answer(
    engine: Engine, ids: list[int], tokens: int, variant: Variant, verifier: Verifier
) -> tuple[int, float]:
    """Rounds and seconds of one answer at a fixed length and number of drafts."""
    w, drafts = variant
    policy = FixedLength(drafts + 1, w, scored=drafts > 0)
    system = System(f"measured:{w}", policy, verifier)
    params = SamplingParams(max_tokens=tokens, ignore_eos=True)
    stats = engine.generate(ids, params, system=system).stats
    return len(stats.rounds), stats.decode_seconds
