"""Orderly answers to strange requests: what they quote stands in the request, and code parses."""

from __future__ import annotations

import ast
import re
from random import Random

import pytest

from training import strange

TEXTS = [
    "The harbour lay quiet. Three ships waited, and nobody spoke of the storm that had passed.",
    "Returns the number of rows, or None where the table is empty; see `count` for details.",
    "x = 3; y = \"a\\b\" # odd characters {like} these, and more of the same kind follow here.",
    "Is it? Yes.",
]  # fmt: skip
ROLES = ["gardener", "tax adviser"]


@pytest.mark.parametrize("seed", range(60))
def test_an_answer_is_made_of_its_request(seed):
    ask, answer = strange.strange(Random(seed), TEXTS, ROLES)
    assert ask.strip()
    assert answer.strip()
    assert not re.search(r"\{[abcnw]\}", ask + answer)  # a template's place left open
    for quoted in re.findall(r'It says: "(.*)"', answer):
        assert quoted.removesuffix(" ...") in " ".join(ask.split())
    for letter, option in re.findall(r"^\(([A-E])\) says: (.*)\.$", answer, re.M):
        assert f"({letter}) {option}" in ask


@pytest.mark.parametrize("seed", range(20))
def test_code_parses(seed):
    _, answer = strange.function(Random(seed), TEXTS[seed % 4])
    code = re.search(r"```python\n(.*)\n```", answer, re.S)
    assert code is not None
    ast.parse(code.group(1))


def test_the_same_seed_gives_the_same_row():
    assert strange.strange(Random(5), TEXTS, ROLES) == strange.strange(Random(5), TEXTS, ROLES)
