"""The systems that `verify` checks: where none is named, every kind that a pair serves."""

from __future__ import annotations

from collections.abc import Sequence

from hybridspec.bench.pairs import Pair
from hybridspec.catalogue import CATALOGUE
from hybridspec.errors import RequestError

REFERENCE = "ar"
FIXED = ("static:2", "static:4", "static:8", "static:16", "length16", "dflash")
OTHERS = ("replayssm", "static:4:block", "static:16:block", "static:4:replay", "ema", "cascade")
ARGUED = {
    "specdecpp": ("specdecpp:0.5",),
    "dcut": ("dcut", "dcut:angelslim"),
    "hybridspec+look": ("hybridspec+look:4",),
}
EVERY = (*FIXED, *OTHERS, *(n for kind in CATALOGUE for n in ARGUED.get(kind, (kind,))))


def chosen(pair: Pair, asked: Sequence[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The systems to compare with the reference, and those of all that the pair does not serve.

    Raises:
        RequestError: one that was asked for is not served, or there is nothing to compare.
    """
    if pair.block_size is None:
        raise RequestError(
            "The pair has no drafter, so plain decoding is its only system. Name one with --draft."
        )
    if asked:
        for name in asked:
            pair.system(name)
        served = [name for name in asked if name != REFERENCE]
    else:
        served = [name for name in EVERY if _serves(pair, name)]
    if not served:
        raise RequestError("--systems names plain decoding alone; expected others to compare.")
    return tuple(served), () if asked else tuple(n for n in EVERY if n not in served)


def corrected(pair: Pair, systems: Sequence[str]) -> tuple[str, ...]:
    """Those whose Stage 0 looks ahead, and which choose the same lengths again: no learners."""
    policies = {name: pair.system(name).policy for name in systems}
    return tuple(n for n, p in policies.items() if p.lookahead and not hasattr(p, "observe"))


def _serves(pair: Pair, name: str) -> bool:
    try:
        pair.system(name)
    except RequestError:
        return False
    return True
