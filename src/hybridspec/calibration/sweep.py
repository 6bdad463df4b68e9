"""The best fixed length, measured: the paper's sweep (appendix E.2).

A subset of the prompts screens the lengths, by the fitted cost of their rounds; up to three within
5% of the fastest, and the whole block, then decode all prompts in turn.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from hybridspec.calibration.kept import add_row, read_rows
from hybridspec.core import SamplingParams
from hybridspec.engine import Engine
from hybridspec.model.gdn import Verifier
from hybridspec.policy.length import FixedLength
from hybridspec.systems import System

NEAR = 0.05  # of the fastest
MOST = 3  # lengths beside the whole block
Sweep = dict[int, tuple[int, float]]  # decode tokens and seconds, pooled, by length


def screened(rates: Mapping[int, float]) -> list[int]:
    """Lengths to measure, of screened tokens a ms by length: ascending, the longest among them."""
    top = max(rates.values())
    order = sorted(rates, key=lambda w: (-rates[w], w))[:MOST]
    return sorted({max(rates), *(w for w in order if rates[w] >= (1 - NEAR) * top)})


def measured_sweep(
    engine: Engine,
    prompts: Sequence[list[int]],
    tokens: int,
    lengths: Sequence[int],
    verifier: Verifier,
    path: Path,
    advance: Callable[[str], None],
) -> Sweep:
    """Decode every prompt at every length, the first of them another one each time.

    A fixed length asks for no more drafts than it verifies, as `static:W` does. An answer ends
    where the model ends it, or after so many tokens.

    path: a line an answer, read first: what is there is not run again.
    """
    done = {(int(n), int(w)): (int(t), s) for n, w, t, s in read_rows(path, 4)}
    for number, ids in enumerate(prompts):
        advance(f"fixed lengths {', '.join(map(str, lengths))}, answer {number + 1}")
        first = number % len(lengths)
        for w in (*lengths[first:], *lengths[:first]):
            if (number, w) not in done:
                done[number, w] = _answer(engine, ids, tokens, w, verifier)
                add_row(path, (number, w, *done[number, w]))
    pooled: Sweep = {}
    for w in lengths:
        mine = [done[number, w] for number in range(len(prompts))]
        pooled[w] = sum(t for t, _ in mine), sum(s for _, s in mine)
    return pooled


def fastest(sweep: Sweep) -> int:
    """The length with the most tokens a second, ties to the shorter."""
    return max(sorted(sweep), key=lambda w: sweep[w][0] / max(sweep[w][1], 1e-9))


def _answer(
    engine: Engine, ids: list[int], tokens: int, w: int, verifier: Verifier
) -> tuple[int, float]:
    """Decode tokens (all but the first) and seconds."""
    system = System(f"measured:{w}", FixedLength(w), verifier)
    answer = engine.generate(ids, SamplingParams(max_tokens=tokens), system=system)
    return len(answer.token_ids) - 1, answer.stats.decode_seconds
