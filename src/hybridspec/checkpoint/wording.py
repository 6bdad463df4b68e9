"""Pieces of sentences that several messages share."""

from __future__ import annotations

from collections.abc import Sequence


def first_few(names: Sequence[str], limit: int = 3) -> str:
    """The first names of a list and how many more there are."""
    rest = len(names) - limit
    return ", ".join(names[:limit]) + (f" and {rest} more" if rest > 0 else "")
