"""Whether any value fits a JSON schema that refers to itself, or it goes on without end."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any


def ends(schema: Mapping[str, Any]) -> bool:
    """Whether some way through its references comes to an end.

    A place is known to end once one of its ways goes by places that do; then those that refer to
    it are looked at again.
    """
    places = {pointer: _at(schema, pointer) for pointer in _pointers(schema)}
    users: dict[str, list[str]] = {}
    for place, part in places.items():
        for pointer in set(_pointers(part)):
            users.setdefault(pointer, []).append(place)
    known: set[str] = set()
    waiting = [*places]
    while waiting:
        place = waiting.pop()
        if place not in known and _ends(places[place], known):  # nothing there: said elsewhere
            known.add(place)
            waiting += users.get(place, [])
    return _ends(schema, known)


def _ends(schema: Any, known: set[str]) -> bool:
    """Whether a schema does, if of all places these do."""
    if not isinstance(schema, Mapping):
        return True
    if isinstance(pointer := schema.get("$ref"), str):
        return pointer in known
    for name in ("anyOf", "oneOf"):
        if isinstance(ways := schema.get(name), list | tuple):
            return any(_ends(way, known) for way in ways)
    inner = [*_items(schema.get("allOf"))]
    named, required = schema.get("properties"), schema.get("required")
    if isinstance(named, Mapping):
        inner += [named[name] for name in _items(required) if name in named]
    if schema.get("minItems"):
        inner.append(schema.get("items"))
    return all(_ends(part, known) for part in inner)


def _items(value: Any) -> list[Any]:
    return [*value] if isinstance(value, list | tuple) else []


def _pointers(value: Any) -> Iterator[str]:
    if isinstance(value, Mapping):
        if isinstance(value.get("$ref"), str):
            yield value["$ref"]
        for part in value.values():
            yield from _pointers(part)
    elif isinstance(value, list | tuple):
        for part in value:
            yield from _pointers(part)


def _is_place(step: str, count: int) -> bool:
    """Whether it is a place in so many: of each one spelling, so that references are few."""
    return step.isdecimal() and len(step) <= len(str(count)) and (
        step == str(int(step)) and int(step) < count
    )  # fmt: skip


def _at(schema: Any, pointer: str) -> Any:
    """What lies there; None where nothing does."""
    for step in pointer.removeprefix("#").split("/")[1:]:
        step = step.replace("~1", "/").replace("~0", "~")
        if isinstance(schema, Mapping):
            schema = schema.get(step)
        elif isinstance(schema, list | tuple) and _is_place(step, len(schema)):
            schema = schema[int(step)]
        else:
            return None
    return schema
