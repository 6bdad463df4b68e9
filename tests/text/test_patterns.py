"""Patterns that a grammar keeps to let no string come that JSON cannot hold."""

from __future__ import annotations

import json

import pytest

from hybridspec.text.patterns import unkept

KEPT = [
    "a",
    "^[a-z]+$",
    "^a$|^b$",
    r"(?:a|\d){2,}",
    r"\w+@\w+\.com",
    ".*",
    r"[\s\S]",
    r"\W",
    "[ -~]{1,3}",
    "[^a]",
    r'[^"\\]*',
    r"[^\n]x?",
    r"[^^$]",
    r"[$^]",
    r"\$\^",
    r"\u4e00",
    r"[\u0020-\u{1F600}]",
    r"\x41",
    r"\D",
    r"\/",
    r"\-\ \_[\].]",
]
UNKEPT = [
    (r"\q", r"the escape \q"),
    (r"[\a]", r"the escape \a"),
    (r"[^\e]", r"the escape \e"),
    (r"\x4", r"the escape \x"),
    (r"(a)\1", r"the escape \1"),
    (r"\é", r"the escape \é"),
    (r"\bfoo", r"the escape \b"),
    ("", "empty"),
    ('a"', "quote"),
    ('["]', "quote"),
    (r"a\\b", "backslash"),
    (r"[\\]", "backslash"),
    (r"a\n", "control"),
    ("a\n", "control"),
    (r"\t|a", "control"),
    (r"\cJ", "control"),
    (r"\0", "control"),
    (r"\x22", "quote"),
    (r"\x1F", "control"),
    (r"\u0022", "quote"),
    (r"\u005C", "backslash"),
    (r"\u{000a}", "control"),
    ("(?=a)b", "look around"),
    ("(?!a)b", "look around"),
    ("(?<=a)b", "look around"),
    ("(?<!a)b", "look around"),
    ("x^a", "anchor"),
    ("a$b", "anchor"),
]


@pytest.mark.parametrize("pattern", [*KEPT, 5, None])
def test_patterns_that_are_kept_to(pattern):
    assert unkept(pattern) is None


@pytest.mark.parametrize(("pattern", "said"), UNKEPT)
def test_patterns_that_would_not_be_kept_to(pattern, said):
    assert said in (unkept(pattern) or "")


@pytest.mark.parametrize("pattern", KEPT)
def test_what_a_kept_pattern_lets_come_is_json(pattern):
    """Every string of one or two characters out of those that matter, in a grammar made of it."""
    xgrammar = pytest.importorskip("xgrammar")
    text = json.dumps({"type": "string", "pattern": pattern})
    grammar = xgrammar.Grammar.from_json_schema(text)
    for inner in _strings():
        try:
            json.loads(f'"{inner}"')
        except ValueError:
            assert not xgrammar.testing._is_grammar_accept_string(grammar, f'"{inner}"')


def _strings():
    letters = ['"', "\\", "\n", "\x01", "\x1f", "a", "n", "$", "x"]
    return [*letters, *(first + second for first in letters for second in letters)]
