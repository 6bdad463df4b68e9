"""What a check finds, and how an error becomes a finding. Imports no torch: that may be broken."""

from __future__ import annotations

import platform
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, TypeVar

from hybridspec.errors import HybridSpecError, said_by
from hybridspec.extras import install

State = Literal["OK", "note", "FAIL"]
T = TypeVar("T")


class Blocked(Exception):
    """A check needs what an earlier one did not find."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the report.

    Attributes:
        name: what was looked at.
        state: `note` is what one should know of and can live with.
        value: what was found.
        advice: what to do, as a sentence; empty where nothing is to be done or `value` says it.
    """

    name: str
    state: State
    value: str
    advice: str = ""

    @property
    def line(self) -> str:
        """For people, without an end of line."""
        value = f"{self.value.rstrip('.')}. {self.advice}" if self.advice else self.value
        return f"{self.state:4}  {self.name:17} {' '.join(value.split())}"


def had(value: T | None) -> T:
    """What an earlier check found.

    Raises:
        Blocked: it found nothing.
    """
    if value is None:
        raise Blocked
    return value


def failure(name: str, error: Exception) -> Finding:
    """An error inside a check as its finding. Errors of our own say what to do."""
    if isinstance(error, Blocked):
        return Finding(name, "note", "not checked", "First mend what failed above.")
    if isinstance(error, HybridSpecError):
        return Finding(name, "FAIL", str(error))
    advice = "If this names nothing that you can mend, please report it as a defect of hybridspec."
    return Finding(name, "FAIL", f"{type(error).__name__}: {said_by(error)}", advice)


def python_version() -> Finding:
    """The interpreter; one that is too old does not come so far."""
    return Finding("python", "OK", platform.python_version())


def not_importable(error: Exception) -> Iterator[Finding]:
    """All that can be said where the engine, or torch below it, cannot be imported."""
    yield python_version()
    advice = f"Install again: {install()}."
    yield Finding("packages", "FAIL", f"The engine cannot be imported: {said_by(error)}", advice)
