"""Which regular expressions a grammar keeps to when they stand in a JSON schema.

xgrammar 0.2.9 writes a character that is spelled out as it is, where JSON wants an escape. It takes
care of what `.`, `\\s`, ranges and classes with `[^` stand for. An escape that it does not know it
takes for the letter, and says so on standard error.
"""

from __future__ import annotations

import re

_ESCAPE = re.compile(r"\\.", re.DOTALL)
_ESCAPED_BACKSLASH = re.compile(r"\\\\")
_NEGATED = re.compile(r"\[\^(?:\\.|[^\]\\])*\]", re.DOTALL)
_CLASS = re.compile(r"\[(?:\\.|[^\]\\])*\]", re.DOTALL)
_UNWRITABLE = re.compile(r'["\x00-\x1f]|\\[\\0-9nrtfvc]')  # in JSON, without an escape
_BY_NUMBER = re.compile(r"\\(?:x([\da-fA-F]{2})|u([\da-fA-F]{4})|u\{([\da-fA-F]+)\})")
_TIMES = re.compile(r"\{(\d{1,9})(?:,(\d{0,9}))?")
_AROUND = re.compile(r"\(\?[=!<]")
_NO_ESCAPE = re.compile(r"\\(?![dDwWsSnrtfvc0]|x[\da-fA-F]{2}|u|[ -/:-@\[-`{-~]).", re.DOTALL)
_ANCHOR_WITHIN = re.compile(r"[^(|:]\^|\$[^)|]")


def unkept(pattern: object, keyword: str = "pattern") -> str | None:
    """What of a regular expression would not be kept to, in words; None if nothing.

    Args:
        pattern: as it stands in the schema. What is no text is left to xgrammar, which refuses it.
        keyword: where it stands there.
    """
    if not isinstance(pattern, str):
        return None
    found = _unkept(pattern)
    return f"{keyword!r} {found}" if found else None


def _unkept(pattern: str) -> str | None:
    if not pattern:
        return "with an empty text"
    if escape := _NO_ESCAPE.search(_ESCAPED_BACKSLASH.sub("__", pattern)):
        return f"with the escape {escape[0]}"
    bare = _CLASS.sub("_", _ESCAPE.sub("_", pattern))
    if _AROUND.search(bare):
        return "with a look around or a named group"
    if _ANCHOR_WITHIN.search(bare):
        return "with an anchor in its middle"
    if _spells_unwritable(_NEGATED.sub("_", pattern)):
        return "with a quote, a backslash or a control character"
    return None


def repetitions(pattern: object) -> int:
    """How many a pattern asks for by number, in all: xgrammar writes those of letters out."""
    if not isinstance(pattern, str):
        return 0
    return sum(int(found[2] or found[1]) for found in _TIMES.finditer(pattern))


def _spells_unwritable(pattern: str) -> bool:
    codes = (int(next(filter(None, found.groups())), 16) for found in _BY_NUMBER.finditer(pattern))
    numbered = any(code < ord(" ") or chr(min(code, 0xFFFF)) in '"\\' for code in codes)
    return numbered or _UNWRITABLE.search(pattern) is not None
