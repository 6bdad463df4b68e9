"""Shapes that are there to show that a bench runs: marked in documents, said beside tables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

SMALL, FULL = "small", "35b"  # `shape_is` of a document
MEANINGLESS = "A small shape: this shows that the bench runs; its figures mean nothing."


def shape_is(small: bool) -> dict[str, str]:
    """The entry of a document."""
    return {"shape_is": SMALL if small else FULL}


def warned(document: Mapping[str, Any] | None, text: str) -> str:
    """The text of a document's tables, below the warning if its shape is a small one."""
    small = document is not None and document.get("shape_is") == SMALL
    return f"{MEANINGLESS}\n\n{text}" if small else text
