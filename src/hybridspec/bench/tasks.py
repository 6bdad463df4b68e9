"""Questions with answers, from rows of a prompt file: what is asked, and what is right.

A row has `answer`, a string or number (GSM8K, BIG-Bench Hard, MMLU; of a string that holds "####",
as GSM8K's own do, what follows the last one), or `test` and `entry_point`,
code that defines `check(candidate)` and the name of the function it checks (HumanEval). Rows with
neither cannot be judged and are counted.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any, Literal

from hybridspec.bench.grading import ONLY_NUMBER, WORDS
from hybridspec.bench.prompts import Prompt
from hybridspec.bench.rows import read_rows
from hybridspec.errors import RequestError

Kind = Literal["number", "choice", "word", "text", "code"]


@dataclass(frozen=True, slots=True)
class Task:
    """One question.

    Attributes:
        prompt: what is asked.
        kind: how an answer is judged; see `grading.py`.
        answer: the right one; of code the empty string.
        test: source of `check(candidate)`, of code only.
        entry_point: the function to check, of code only.
    """

    prompt: Prompt
    kind: Kind
    answer: str = ""
    test: str = ""
    entry_point: str = ""


def read_tasks(path: Path, prompts: Sequence[Prompt]) -> list[Task]:
    """The tasks among some prompts of a file, in their order.

    Args:
        path: where the prompts are from.
        prompts: as `read_prompts` gave them, or some of them.

    Raises:
        RequestError: an answer, test or entry point of another shape, or a prompt that the file
            holds no more.
    """
    rows = {_id(row.value): (row.value, row.where) for row in read_rows(path)}
    lost = next((prompt.id for prompt in prompts if prompt.id not in rows), None)
    if lost is not None:
        raise RequestError(f"{path} has changed while it was read: {lost!r} is gone. Run it again.")
    tasks = (_task(prompt, *rows[prompt.id]) for prompt in prompts)
    return [task for task in tasks if task is not None]


def kind_of(answer: str) -> Kind:
    """How an answer is to be judged, by its looks."""
    if ONLY_NUMBER.fullmatch(answer):
        return "number"
    if re.fullmatch(r"\([A-Z]\)|[A-Z]", answer):
        return "choice"
    return "word" if answer.casefold() in WORDS else "text"


def _id(row: dict[str, Any]) -> str:
    return str(row.get("id", row.get("question_id")))


def _task(prompt: Prompt, row: dict[str, Any], where: str) -> Task | None:
    answer = row.get("answer")
    if answer is not None:
        text = _answer(answer, where)
        return Task(prompt, kind_of(text), text)
    test, name = row.get("test"), row.get("entry_point")
    if test is None and name is None:
        return None
    if not isinstance(test, str) or "def check(" not in test:
        raise RequestError(f"{where}: test does not define check(candidate); expected code.")
    if not isinstance(name, str) or not name.isidentifier():
        raise RequestError(f"{where}: entry_point is {name!r}; expected a function's name.")
    return Task(prompt, "code", "", test, name)


def _answer(answer: object, where: str) -> str:
    """The text of an answer: a number without an exponent, GSM8K's without its way there."""
    if isinstance(answer, float) and math.isfinite(answer):
        return format(Decimal(repr(answer)), "f")
    if isinstance(answer, bool | float) or not isinstance(answer, str | int):
        raise RequestError(f"{where}: answer is {answer!r}; expected a string or a number.")
    text = str(answer).strip()
    if not text:
        raise RequestError(f"{where}: answer is empty; leave it out where there is none.")
    return text.rpartition("####")[2].strip() or text
