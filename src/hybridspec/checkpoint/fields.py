"""Typed reading of a JSON object: every complaint names file, field and what was expected."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hybridspec.errors import CheckpointError
from hybridspec.jsonfile import shown

MAX_SIZE, MAX_POSITIONS, MAX_LAYERS = 2**20, 2**30, 2**10


class Fields:
    """The fields of one JSON object. A field that is null counts as absent.

    Args:
        data: the object.
        where: the file, and the section within it, for messages.
    """

    def __init__(self, data: Mapping[str, object], where: str) -> None:
        self._data = data
        self.where = where

    def __contains__(self, name: str) -> bool:
        return self.get(name) is not None

    def get(self, name: str) -> object:
        """The raw value, None when absent."""
        return self._data.get(name)

    def problem(self, name: str, expected: str) -> CheckpointError:
        """The sentence for a field whose value cannot be used."""
        value = self.get(name)
        found = "missing" if value is None else shown(value)
        return CheckpointError(f"{self.where}: {name} is {found}; expected {expected}.")

    def section(self, name: str) -> Fields:
        """A nested object; an absent one reads as empty."""
        value = self.get(name)
        if value is not None and not isinstance(value, dict):
            raise self.problem(name, "an object")
        return Fields(value or {}, f"{self.where}, {name}")

    def integer(
        self, name: str, default: int | None = None, least: int = 1, most: int = MAX_SIZE
    ) -> int:
        """An integer from `least` to `most`; the default when absent, an error when there is none.

        The upper bound is far beyond any model: it stops a damaged number here.
        """
        value = self.get(name)
        if value is None and default is not None:
            return default
        if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
            raise self.problem(name, f"an integer from {least} to {most}")
        return value

    def number(self, name: str, default: float | None = None, above_zero: bool = True) -> float:
        """A finite number, positive or at least not negative; the default when absent."""
        value = self.get(name)
        if value is None and default is not None:
            return default
        expected = "a positive number" if above_zero else "a number of at least 0"
        if not isinstance(value, int | float) or isinstance(value, bool):
            raise self.problem(name, expected)
        if not 0 <= value < float("inf") or (above_zero and value == 0):
            raise self.problem(name, expected)
        return float(value)

    def flag(self, name: str) -> bool | None:
        """A boolean, None when absent."""
        value = self.get(name)
        if value is not None and not isinstance(value, bool):
            raise self.problem(name, "true or false")
        return value

    def integers(self, name: str, least: int = 0) -> tuple[int, ...]:
        """A non-empty list of integers of at least `least`."""
        value = self.get(name)
        if not isinstance(value, list) or not value:
            raise self.problem(name, "a list of integers")
        if not all(isinstance(v, int) and not isinstance(v, bool) and v >= least for v in value):
            raise self.problem(name, f"a list of integers of at least {least}")
        return tuple(value)

    def only(self, name: str, supported: object) -> None:
        """Refuses, by name, any value but the supported one. An absent field passes."""
        value = self.get(name)
        if value is not None and value != supported:
            raise self.problem(name, f"{shown(supported)}, the only value supported")


def agreed(name: str, places: Sequence[Fields]) -> Fields:
    """The one of `places` that holds a field two of them may hold.

    Returns the first that holds it, or the first of all when none does.

    Raises:
        CheckpointError: two places hold it and differ: which one counts cannot be known.
    """
    holders = [place for place in places if name in place]
    for other in holders[1:]:
        if other.get(name) != holders[0].get(name):
            raise CheckpointError(
                f"{name} is {shown(holders[0].get(name))} in {holders[0].where} but "
                f"{shown(other.get(name))} in {other.where}; expected the same value twice."
            )
    return holders[0] if holders else places[0]
