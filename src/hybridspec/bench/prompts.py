"""Prompts from a JSONL file in SPEED-Bench's shape: id, category, turns. The first turn is used."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain, zip_longest
from pathlib import Path
from typing import Any

from hybridspec.errors import RequestError

DEFAULT = Path(__file__).parent.parent / "assets" / "prompts.jsonl"
# The public SPEED-Bench files hold this in place of texts under other licences.
PLACEHOLDER = "FULL BENCHMARK DATA SHOULD BE FETCHED"
MOST_BYTES = 256 << 20  # /dev/zero has no end
SHAPE = '{"id": "a-1", "category": "math", "turns": ["..."]}'


@dataclass(frozen=True, slots=True)
class Prompt:
    """One prompt. `split` is None where the file names none."""

    id: str
    category: str
    text: str
    split: str | None = None


def read_prompts(path: Path) -> list[Prompt]:
    """All prompts of a JSONL file, in its order. Blank lines are skipped.

    Raises:
        RequestError: a file that cannot be read, a line of another shape, or no prompt at all.
    """
    prompts: list[Prompt] = []
    lines: dict[str, int] = {}
    for number, line in enumerate(_text(path).split("\n"), 1):
        if not line.strip():
            continue
        prompt = _prompt(line, f"{path}, line {number}")
        if prompt.id in lines:
            raise RequestError(
                f"{path}, line {number}: the id {prompt.id!r} is that of line {lines[prompt.id]} "
                "too; expected each prompt to have its own."
            )
        lines[prompt.id] = number
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

    With a limit the categories take turns, so that each keeps about as many prompts as the others.

    Raises:
        RequestError: a split or category that no prompt has, or none that has both.
    """
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


def digest(prompts: Iterable[Prompt]) -> str:
    """SHA-256, in hex, of ids, categories and texts."""
    rows = [[p.id, p.category, p.text] for p in prompts]
    return hashlib.sha256(json.dumps(rows).encode()).hexdigest()


def _text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            data = file.read(MOST_BYTES + 1)
        if len(data) > MOST_BYTES:
            raise RequestError(
                f"The prompt file {path} does not end within {MOST_BYTES >> 20} MiB; expected less."
            )
        return data.decode("utf-8").replace("\r\n", "\n").replace("\r", "\n")
    except UnicodeDecodeError as error:
        raise RequestError(
            f"The prompt file {path} is not UTF-8 text (byte {error.start}); expected JSONL."
        ) from None
    except OSError as error:
        raise RequestError(f"The prompt file {path} cannot be read: {error.strerror}.") from None


def _prompt(line: str, where: str) -> Prompt:
    try:
        row: Any = json.loads(line)
    except (ValueError, RecursionError):  # the latter for thousands of nested brackets
        raise RequestError(f"{where} is not JSON; expected {SHAPE}.") from None
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
    return Prompt(str(name), _category(row, where), _first_turn(row, where), split)


def _category(row: dict[str, Any], where: str) -> str:
    category = row.get("category")
    if not isinstance(category, str) or not category.strip():
        raise RequestError(f"{where} has no category; expected {SHAPE}.")
    _printable(category, "category", where)
    return category


def _printable(name: str, what: str, where: str) -> None:
    """Names stand in tables, pictures and files. The lone half of a surrogate pair, which JSON can
    write and UTF-8 cannot, is not printable either.
    """
    if not name.isprintable():
        raise RequestError(
            f"{where}: the {what} {name!a} has characters that cannot be printed; expected none."
        )


def _first_turn(row: dict[str, Any], where: str) -> str:
    turns = row.get("turns")
    text = turns[0] if isinstance(turns, list) and turns else None
    if not isinstance(text, str) or not text.strip():
        raise RequestError(f"{where}: turns is not a list that begins with text; expected {SHAPE}.")
    half = next((c for c in text if "\ud800" <= c <= "\udfff"), None)
    if half is not None:
        raise RequestError(
            f"{where}: the text holds {half!a}, one half of a surrogate pair, which is no "
            "character; expected both halves or none."
        )
    if text.startswith(PLACEHOLDER):
        raise RequestError(
            f"{where} holds SPEED-Bench's placeholder, not a prompt; fetch the texts first with "
            "the tool that its page names."
        )
    return text


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
