"""Prompts in SPEED-Bench's shape: id or question_id, category, turns. Other columns are left."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import chain, zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hybridspec.bench.rows import read_rows
from hybridspec.errors import RequestError

if TYPE_CHECKING:
    from hybridspec.bench.options import SpeedOptions

DEFAULT = Path(__file__).parent.parent / "assets" / "prompts.jsonl"
# The public SPEED-Bench files hold this in place of texts under other licences.
PLACEHOLDER = "FULL BENCHMARK DATA SHOULD BE FETCHED"
HALVES = ("calibration", "test")
SHAPE = '{"id": "a-1", "category": "math", "turns": ["..."]}'


@dataclass(frozen=True, slots=True)
class Prompt:
    """One prompt. `text` is its first turn, `more` the others; `split` None where none is named."""

    id: str
    category: str
    text: str
    split: str | None = None
    more: tuple[str, ...] = ()

    @property
    def turns(self) -> tuple[str, ...]:
        """All that the user says, in order."""
        return (self.text, *self.more)


def read_prompts(path: Path) -> list[Prompt]:
    """All prompts of a file (JSONL, or parquet) or of `hub:owner/name`, in their order.

    Raises:
        RequestError: a file that cannot be read, a line of another shape, or no prompt at all.
    """
    prompts: list[Prompt] = []
    lines: dict[str, str] = {}
    for row in read_rows(path):
        prompt = _prompt(row.value, row.where)
        if prompt.id in lines:
            raise RequestError(
                f"{row.where}: the id {prompt.id!r} is that of {lines[prompt.id]} too; expected "
                "each prompt to have its own."
            )
        lines[prompt.id] = row.line
        prompts.append(prompt)
    if not prompts:
        raise RequestError(f"{path} holds no prompts; expected one JSON object a line: {SHAPE}.")
    return prompts


def select(
    prompts: Sequence[Prompt],
    *,
    split: str | None = None,
    categories: Sequence[str] = (),
    limit: int | None = None,
) -> list[Prompt]:
    """The prompts of a split and of some categories, at most `limit`, in their order.

    Where no prompt names a split, `calibration` and `test` are halves of each category, by a fixed
    shuffle (the paper halves SPEED-Bench so; its seed is not known). With a limit the categories
    take turns, so that each keeps about as many prompts as the others.

    Raises:
        RequestError: a split or category that no prompt has, or none that has both.
    """
    if split in HALVES and all(p.split is None for p in prompts):
        prompts = _halved(prompts)
    if split is not None:
        _known("split", [split], {p.split for p in prompts if p.split is not None})
    _known("category", categories, {p.category for p in prompts})
    kept = [
        p
        for p in prompts
        if split in (None, p.split) and (not categories or p.category in categories)
    ]
    if not kept:
        raise RequestError(
            f"No prompt is of the split {split} and of the categories {', '.join(categories)}; "
            "leave out --split or --categories."
        )
    return kept if limit is None else _in_turns(kept, limit)


def selected(options: SpeedOptions) -> list[Prompt]:
    """The prompts that a command line asks for; raises as `read_prompts` and `select`."""
    return select(
        read_prompts(options.prompts),
        split=options.split,
        categories=options.categories,
        limit=options.limit,
    )


def digest(prompts: Iterable[Prompt], *, every_turn: bool = False) -> str:
    """SHA-256, in hex, of ids, categories and first turns, or all of them."""
    rows = [[p.id, p.category, *(p.turns if every_turn else (p.text,))] for p in prompts]
    return hashlib.sha256(json.dumps(rows).encode()).hexdigest()


def _halved(prompts: Sequence[Prompt]) -> list[Prompt]:
    """Every prompt with a split: of each category the first half by the hash of its id, or one more
    where they are odd, calibrates."""
    groups: dict[str, list[Prompt]] = {}
    for prompt in sorted(prompts, key=lambda p: hashlib.sha256(p.id.encode()).hexdigest()):
        groups.setdefault(prompt.category, []).append(prompt)
    first = {p.id for group in groups.values() for p in group[: (len(group) + 1) // 2]}
    return [replace(p, split=HALVES[p.id not in first]) for p in prompts]


def _prompt(row: Any, where: str) -> Prompt:
    if not isinstance(row, dict):
        raise RequestError(f"{where} is not an object; expected {SHAPE}.")
    name = row.get("id", row.get("question_id"))
    if isinstance(name, bool) or not isinstance(name, str | int) or name == "":
        raise RequestError(f"{where} has no id; expected {SHAPE}.")
    _printable(str(name), "id", where)
    split = row.get("split")
    if split is not None and not isinstance(split, str):
        raise RequestError(
            f"{where}: split is of type {type(split).__name__}; expected a string or none."
        )
    _printable(split or "", "split", where)
    text, *more = _turns(row, where)
    return Prompt(str(name), _category(row, where), text, split, tuple(more))


def _category(row: dict[str, Any], where: str) -> str:
    category = row.get("category")
    if not isinstance(category, str) or not category.strip():
        raise RequestError(f"{where} has no category; expected {SHAPE}.")
    _printable(category, "category", where)
    return category.strip()  # as names on the command line are


def _printable(name: str, what: str, where: str) -> None:
    """Names stand in tables, pictures and files. The lone half of a surrogate pair, which JSON can
    write and UTF-8 cannot, is not printable either.
    """
    if not name.isprintable():
        raise RequestError(
            f"{where}: the {what} {name!a} has characters that cannot be printed; expected none."
        )


def _turns(row: dict[str, Any], where: str) -> list[str]:
    turns = row.get("turns")
    if not isinstance(turns, list) or not turns:
        raise RequestError(f"{where}: turns is not a list of texts; expected {SHAPE}.")
    for number, text in enumerate(turns, 1):
        if not isinstance(text, str) or not text.strip():
            raise RequestError(
                f"{where}: turns holds no text as its number {number}; expected {SHAPE}."
            )
        _check_text(text, where)
    return turns


def _check_text(text: str, where: str) -> None:
    half = next((c for c in text if "\ud800" <= c <= "\udfff"), None)
    if half is not None:
        raise RequestError(
            f"{where}: the text holds {half!a}, one half of a surrogate pair, which is no "
            "character; expected both halves or none."
        )
    if PLACEHOLDER in text:
        raise RequestError(
            f"{where} holds SPEED-Bench's placeholder, not a prompt; fetch the texts first with "
            "the tool that its page names."
        )


def _known(what: str, asked: Sequence[str], known: set[str]) -> None:
    unknown = [name for name in asked if name not in known]
    if unknown:
        raise RequestError(
            f"No prompt has the {what} {unknown[0]!r}; expected one of: "
            f"{', '.join(sorted(known)) or 'none, the file names no ' + what}."
        )


def _in_turns(prompts: list[Prompt], limit: int) -> list[Prompt]:
    groups: dict[str, list[int]] = {}
    for index, prompt in enumerate(prompts):
        groups.setdefault(prompt.category, []).append(index)
    turns = (index for index in chain(*zip_longest(*groups.values())) if index is not None)
    chosen = sorted(index for index, _ in zip(turns, range(limit), strict=False))
    return [prompts[index] for index in chosen]
