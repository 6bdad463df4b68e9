"""A grammar along an answer: what may come at every row of a block; looks leave no trace."""

from __future__ import annotations

import contextlib
import sys
from collections import Counter

import pytest
import torch

pytest.importorskip("xgrammar")

from hybridspec import assets
from hybridspec.errors import OptionError, RequestError
from hybridspec.text.grammar import Grammars, Walk
from hybridspec.text.tokenizer import Tokenizer

V, STOPS = 8192, (8130, 8128)
SCHEMA = {"properties": {"a": {"type": "integer"}, "b": {"type": "string"}}, "required": ["a"]}
SCHEMA |= {"type": "object"}


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return Tokenizer.from_dir(assets.TARGET)


@pytest.fixture(scope="module")
def grammars(tokenizer) -> Grammars:
    return Grammars(tokenizer, V, STOPS)


@pytest.fixture
def walk(grammars) -> Walk:
    return grammars.make(SCHEMA, None).walk(STOPS)


def allowed(words: torch.Tensor) -> list[set[int]]:
    """The ids that each row lets come."""
    bits = (words[:, :, None] >> torch.arange(32)) & 1
    return [set(row.nonzero().flatten().tolist()) for row in bits.flatten(1)[:, :V]]


def plain_rows(grammars, ids, after=None) -> list[set[int]]:
    """As plain decoding asks: a token at a time, nothing looked at ahead."""
    walk, rows = grammars.make(SCHEMA, after).walk(STOPS), []
    for token in (*ids, None):
        words = walk.masks([])
        rows.append(set(range(V)) if words is None else allowed(words)[0])
        if token is not None:
            walk.keep([token])
    return rows


@pytest.mark.parametrize("text", ['{"a": 12}', '{"a": -3, "b": "x{}y"}', '{\n  "a": 5\n}'])
@pytest.mark.parametrize("block", [1, 2, 5, 15])
def test_rows_of_blocks_are_those_of_single_tokens(tokenizer, grammars, walk, text, block):
    ids = [*tokenizer.encode(text), STOPS[0]]
    expected = plain_rows(grammars, ids)
    for start in range(0, len(ids), block):
        drafts = ids[start : start + block]
        got = allowed(walk.masks(drafts))
        assert got == expected[start : start + len(drafts) + 1]
        walk.keep(drafts)
    assert all(token in row for token, row in zip(ids, expected, strict=False))
    assert expected[-1] == set(STOPS)


@pytest.mark.parametrize("kept", [0, 1, 2, 3])
def test_a_look_ahead_is_taken_back_whatever_is_kept(tokenizer, grammars, walk, kept):
    ids = tokenizer.encode('{"a": 1, "b": "hello"}')
    for _ in range(3):
        walk.masks(ids[:15])
        walk.masks([ids[0], ids[0], 5])
    walk.keep(ids[:kept])
    assert allowed(walk.masks([]))[0] == plain_rows(grammars, ids[:kept])[-1]


def test_rows_after_a_refused_draft_say_nothing(tokenizer, grammars, walk):
    ids = tokenizer.encode('{"a": 1}')
    wrong = [ids[0], *tokenizer.encode("[]"), ids[1]]
    expected = plain_rows(grammars, ids[:1])
    rows = allowed(walk.masks(wrong))
    assert rows[:2] == expected
    assert wrong[1] not in rows[1]
    assert all(row == set(range(V)) for row in rows[2:])


def test_after_the_end_only_stop_ids_may_come(tokenizer, walk):
    """Also within a block that runs past it, and for drafts that are anything."""
    ids = tokenizer.encode('{"a": 1}')
    rows = allowed(walk.masks([*ids, STOPS[0], STOPS[1], 5]))
    assert rows[len(ids)] == rows[len(ids) + 1] == set(STOPS)
    walk.keep([*ids, STOPS[0]])
    assert allowed(walk.masks([STOPS[0], 7]))[0] == set(STOPS)
    walk.keep([STOPS[0]])


def test_other_stop_ids_than_the_checkpoints(tokenizer, grammars):
    walk = grammars.make(SCHEMA, None).walk([8129])
    walk.keep(tokenizer.encode('{"a": 1}'))
    assert allowed(walk.masks([]))[0] == {8129}


def test_it_begins_in_the_middle_of_a_block(tokenizer, grammars):
    """[x, </think>, {, bad]: bad may not come, and what is kept is known up to {."""
    end, brace = tokenizer.token_id("</think>"), tokenizer.encode("{")[0]
    x, bad = tokenizer.encode("x")[0], tokenizer.encode("[")[0]
    walk = grammars.make(SCHEMA, "</think>").walk(STOPS)
    everything = set(range(V))
    assert walk.masks([x, x]) is None
    rows = allowed(walk.masks([x, end, brace, bad]))
    assert rows[0] == rows[1] == everything
    assert rows[2:4] == plain_rows(grammars, [brace])
    assert brace in rows[2]
    assert bad not in rows[3]
    assert walk.masks([x]) is None  # the look was taken back: nothing has begun
    walk.keep([x, end, brace])
    assert allowed(walk.masks([]))[0] == rows[3]


def test_a_row_without_any_token_ends_the_answer():
    """A vocabulary without digits cannot write an integer."""

    class Letters:
        def token_bytes(self, i: int) -> bytes:
            return b"" if i == 63 else bytes([b'{}[]":a'[i]]) if i < 7 else b"x"

    walk = Grammars(Letters(), 64, [63]).make(SCHEMA, None).walk([63])
    ids = [0, 4, 6, 4, 5]  # {"a":
    for _ in range(2):
        assert allowed_64(walk.masks([*ids, 63])[5]) == {63}
    walk.keep(ids)
    assert allowed_64(walk.masks([63])[0]) == {63}
    walk.keep([63])


def allowed_64(row: torch.Tensor) -> set[int]:
    return {i for i in range(64) if int(row[i // 32]) >> i % 32 & 1}


def test_any_object(tokenizer, grammars):
    grammar = grammars.make(None, None)
    for text in ("{}", '{"x": [1, {"y": null}]}'):
        walk = grammar.walk(STOPS)
        for token in tokenizer.encode(text):
            assert token in allowed(walk.masks([]))[0]
            walk.keep([token])
        assert set(STOPS) <= allowed(walk.masks([]))[0]
    begins = allowed(grammar.walk(STOPS).masks([]))[0]
    assert not {tokenizer.encode(t)[0] for t in ("[", "1", '"', " ")} & begins


class Counted:
    """A matcher whose calls are counted."""

    def __init__(self, matcher) -> None:
        self.matcher, self.calls = matcher, Counter()

    def __getattr__(self, name):
        def call(*given):
            self.calls[name] += 1
            return getattr(self.matcher, name)(*given)

        return call


def test_a_round_late_in_an_answer_asks_as_much_as_an_early_one(tokenizer, grammars):
    """Case: tokens kept in a list and gone through again at every look."""
    walk = grammars.make({"items": {"type": "integer"}, "type": "array"}, None).walk(STOPS)
    walk.keep(tokenizer.encode("["))
    item = tokenizer.encode("12,")
    walk._matcher, seen = Counted(walk._matcher), []
    for _ in range(400):
        walk.masks(item * 3)
        walk.keep(item)
        seen.append(walk._matcher.calls)
        walk._matcher.calls = Counter()
    drafts, kept = 3 * len(item), len(item)
    assert seen[0]["accept_token"] == drafts + kept
    assert (seen[0]["fill_next_token_bitmask"], seen[0]["rollback"]) == (drafts + 1, 1)
    assert all(calls == seen[0] for calls in seen)


@pytest.mark.parametrize("after", ["", "two words", 5, ["</think>"]])
def test_a_token_that_is_none(grammars, after):
    with pytest.raises(OptionError, match=r"^after is .*; expected the text of one token"):
        grammars.make(None, after)


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "integer", "minimum": 5, "maximum": 1},
        {"$ref": "#/x"},
        {"pattern": "(", "type": "string"},
    ],
)
def test_a_schema_that_cannot_be_compiled_is_refused_in_a_sentence(grammars, schema):
    with pytest.raises(OptionError, match=r"^schema cannot be used: [^\[\]]+\.$"):
        grammars.make(schema, None)


QUIET = [  # what xgrammar reads past or does not know, and would say so on standard error
    {"type": "string", "pattern": r"\q"},
    {"type": "string", "pattern": "a$b"},
    {"type": "string", "pattern": "(?!a)b"},
    {"type": "string", "format": "email", "minLength": 3},
    {"type": "integer", "multipleOf": 2, "maximum": 9},
    {"type": "number", "multipleOf": 0.5},
    {"type": "object", "patternProperties": {r"[\a]": {}}},
    {"type": "object", "patternProperties": {"(": {}}},
    {"type": "object", "patternProperties": {"(?<=a)b": {}}},
    {"type": "object", "propertyNames": {"pattern": "a^b", "type": "string"}},
    {"oneOf": [{"type": "integer"}, {"type": "number"}]},
]


@pytest.mark.parametrize("schema", QUIET, ids=str)
def test_nothing_is_written_beside_what_is_raised(grammars, schema, capfd):
    with contextlib.suppress(OptionError):
        grammars.make(schema, None)
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize("pattern", ["(", "[", "a{3,1}", "*", "x{", "\\", r"\p{L}", "[z-a]"])
@pytest.mark.parametrize("where", ["pattern", "patternProperties"])
def test_what_is_no_regular_expression_is_refused(grammars, where, pattern):
    schema = {"pattern": pattern, "type": "string"}
    named = {"patternProperties": {pattern: {}}, "type": "object"}
    with pytest.raises(OptionError, match=r"^schema (cannot be used|uses '.*' with the escape)"):
        grammars.make(named if where == "patternProperties" else schema, None)


def test_a_missing_package_is_a_sentence(tokenizer, monkeypatch):
    monkeypatch.setitem(sys.modules, "xgrammar", None)
    with pytest.raises(RequestError, match=r"pip install -c constraints.txt \"\.\[grammar\]\""):
        Grammars(tokenizer, V, STOPS)
