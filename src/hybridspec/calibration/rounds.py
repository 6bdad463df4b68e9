"""Rounds at every fixed length, timed on real answers; each answer is kept once it is done."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path

from hybridspec.core import SamplingParams
from hybridspec.engine import Engine
from hybridspec.model.gdn import Verifier
from hybridspec.policy.length import FixedLength
from hybridspec.systems import System

Samples = dict[int, list[tuple[int, float]]]


def timed_rounds(
    engine: Engine,
    prompts: Sequence[list[int]],
    tokens: int,
    verifier: Verifier,
    path: Path,
    advance: Callable[[str], None],
) -> Samples:
    """(rounds, decode seconds) of each measured answer, by length; 0 is plain decoding.

    Prompt by prompt all lengths run in turn, the first of them another one each time. An answer's
    last round, which the limit may cut, counts like the others.

    path: a line an answer, read first: what is there is not run again.
    """
    done = _lines(path)
    assert engine.drafter is not None
    block = engine.drafter.config.block_size
    lengths = [0, *range(2, block + 1)]
    if not done:
        for w in lengths:
            _answer(engine, prompts[0], tokens, w, block, verifier)  # warm-up
    for number, ids in enumerate(prompts):
        advance(f"rounds, {verifier}, answer {number + 1}")
        first = number % len(lengths)
        for w in lengths[first:] + lengths[:first]:
            if (number, w) not in done:
                done[number, w] = _answer(engine, ids, tokens, w, block, verifier)
                with path.open("a", encoding="utf-8") as file:
                    file.write(json.dumps([number, w, *done[number, w]]) + "\n")
    by_length: Samples = defaultdict(list)
    for (_, w), rounds in done.items():
        if rounds[0]:
            by_length[w].append(rounds)
    return dict(by_length)


def _lines(path: Path) -> dict[tuple[int, int], tuple[int, float]]:
    """What was measured before. A line that an interruption cut is taken out of the file."""
    done, kept = {}, []
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else ():
        try:
            number, w, rounds, seconds = json.loads(line)
        except ValueError:
            continue
        done[int(number), int(w)] = (int(rounds), float(seconds))
        kept.append(line + "\n")
    if path.exists():
        path.write_text("".join(kept), encoding="utf-8")
    return done


def _answer(
    engine: Engine, ids: list[int], tokens: int, w: int, block: int, verifier: Verifier
) -> tuple[int, float]:
    """Rounds and seconds of one answer at a fixed length; the drafter proposes a whole block."""
    policy = FixedLength(block, w, scored=True) if w else FixedLength(1)
    system = System(f"measured:{w}", policy, verifier)
    params = SamplingParams(max_tokens=tokens, ignore_eos=True)
    stats = engine.generate(ids, params, system=system).stats
    return len(stats.rounds), stats.decode_seconds
