from __future__ import annotations

import json
from pathlib import Path

import pytest

from hybridspec.bench import rows
from hybridspec.bench.prompts import DEFAULT, PLACEHOLDER, Prompt, digest, read_prompts, select
from hybridspec.errors import RequestError

GOOD = {"id": "a", "category": "math", "turns": ["One?", "Two?"], "split": "test"}


DEEP = "[" * 900 + "]" * 900  # read by json, not by repr


def write(tmp_path, *rows):
    path = tmp_path / "prompts.jsonl"
    lines = [row if isinstance(row, str) else json.dumps(row) for row in rows]
    path.write_text("\n".join(lines), encoding="utf-8")
    return path


def test_first_turn_and_split_are_read(tmp_path):
    other = {"question_id": 7, "category": "rag", "turns": ["line\u2028separator"]}
    path = write(tmp_path, GOOD, "", other)
    assert read_prompts(path) == [
        Prompt("a", "math", "One?", "test", ("Two?",)),
        Prompt("7", "rag", "line\u2028separator", None),
    ]


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ("{", "line 2 is not JSON"),
        ("[1]", "line 2 is not an object"),
        (GOOD, "line 2: the id 'a' is that of line 1"),
        ("[" * 100_000, "line 2 is not JSON"),
        ('{"id": ' * 100_000, "line 2 is not JSON"),
        ({**GOOD, "id": "\ud800"}, r"line 2: the id '\\ud800' has characters that cannot be"),
        ({**GOOD, "id": "a\nb"}, r"line 2: the id 'a\\nb' has"),
        ({**GOOD, "id": "b", "category": "\udfff"}, "line 2: the category"),
        ({**GOOD, "id": "b", "category": "\x1b[31m"}, "line 2: the category"),
        ({**GOOD, "id": "b", "split": "\ud800"}, "line 2: the split"),
        ({**GOOD, "id": "b", "turns": ["Hi \ud83d"]}, r"line 2: the text holds '\\ud83d'"),
        ({**GOOD, "id": None}, "line 2 has no id"),
        ({**GOOD, "id": True}, "line 2 has no id"),
        ({**GOOD, "id": "b", "category": " "}, "line 2 has no category"),
        ({**GOOD, "id": "b", "turns": []}, "line 2: turns"),
        ({**GOOD, "id": "b", "turns": "text"}, "line 2: turns"),
        ({**GOOD, "id": "b", "turns": [" \n"]}, "line 2: turns"),
        ({**GOOD, "id": "b", "turns": [[1, 2]]}, "line 2: turns"),
        ({**GOOD, "id": "b", "split": 1}, "line 2: split is of type int"),
        (json.dumps({**GOOD, "id": "b", "split": 0}).replace(": 0", ": " + DEEP), "line 2: split"),
        ({**GOOD, "id": "b", "turns": [PLACEHOLDER + " FROM"]}, "line 2 holds SPEED-Bench's"),
        ({**GOOD, "id": "b", "turns": ["Hi", PLACEHOLDER]}, "line 2 holds SPEED-Bench's"),
        ({**GOOD, "id": "b", "turns": ["Hi", 3]}, "line 2: turns holds no text as its number 2"),
    ],
)
def test_a_bad_row_is_named_by_its_line(tmp_path, row, said):
    with pytest.raises(RequestError, match=said):
        read_prompts(write(tmp_path, GOOD, row))


def test_a_file_without_prompts_is_refused(tmp_path):
    with pytest.raises(RequestError, match="holds no prompts"):
        read_prompts(write(tmp_path, "", "  "))


def test_a_file_that_cannot_be_read_is_refused(tmp_path):
    with pytest.raises(RequestError, match="cannot be read: No such file"):
        read_prompts(tmp_path / "none.jsonl")
    with pytest.raises(RequestError, match="cannot be read: Is a directory"):
        read_prompts(tmp_path)
    path = tmp_path / "latin.jsonl"
    path.write_bytes(b'{"id": "\xe9"}')
    with pytest.raises(RequestError, match=r"not UTF-8 text \(byte 8\)"):
        read_prompts(path)


def test_a_file_without_an_end_is_refused(monkeypatch):
    monkeypatch.setattr(rows, "MOST_BYTES", 1 << 20)
    with pytest.raises(RequestError, match="/dev/zero does not end within 1 MiB"):
        read_prompts(Path("/dev/zero"))


def some():
    return [
        Prompt(f"{category}-{i}", category, "text", split)
        for category in ("math", "rag", "qa")
        for i, split in enumerate(("test", "calibration", None))
    ]


def test_split_and_categories_filter():
    assert [p.id for p in select(some(), split="test")] == ["math-0", "rag-0", "qa-0"]
    chosen = select(some(), split="calibration", categories=("qa", "math"))
    assert [p.id for p in chosen] == ["math-1", "qa-1"]


def test_a_limit_takes_from_each_category_in_turn():
    assert [p.id for p in select(some(), limit=4)] == ["math-0", "math-1", "rag-0", "qa-0"]
    assert select(some(), limit=100) == some()


def test_unknown_names_are_refused_with_the_known_ones():
    with pytest.raises(RequestError, match="split 'tset'; expected one of: calibration, test"):
        select(some(), split="tset")
    with pytest.raises(RequestError, match="category 'art'; expected one of: math, qa, rag"):
        select(some(), categories=("math", "art"))
    with pytest.raises(RequestError, match="the file names no split"):
        select([Prompt("a", "math", "x")], split="dev")


def test_prompts_without_splits_are_halved_by_category():
    prompts = [Prompt(f"{c}-{i}", c, "x") for c in ("math", "rag") for i in range(9)]
    ours, theirs = (select(prompts, split=split) for split in ("calibration", "test"))
    assert [len([p for p in ours if p.category == c]) for c in ("math", "rag")] == [5, 5]
    assert sorted(p.id for p in ours + theirs) == sorted(p.id for p in prompts)
    assert [p.id for p in ours if p.category == "math"] != [f"math-{i}" for i in range(5)]
    again = select(prompts[::-1], split="test")  # whatever the order of the file
    assert {p.id for p in again} == {p.id for p in theirs}


def test_a_split_and_a_category_that_exclude_each_other_are_refused():
    prompts = [Prompt("a", "math", "x", "test"), Prompt("b", "rag", "x", "calibration")]
    with pytest.raises(RequestError, match="No prompt is of the split test and of the categories"):
        select(prompts, split="test", categories=("rag",))


def test_a_categorys_name_is_read_without_blanks_around_it(tmp_path):
    (prompt,) = read_prompts(write(tmp_path, {**GOOD, "category": " creative writing "}))
    assert prompt.category == "creative writing"


def test_speed_benchs_columns_are_understood(tmp_path):
    row = {
        **{"question_id": "9c", "category": "qa", "sub_category": "x", "turns": ["Q?"]},
        **{"source": "s", "src_id": "1", "difficulty": "hard", "multiturn": False},
    }
    assert read_prompts(write(tmp_path, row)) == [Prompt("9c", "qa", "Q?")]


def test_later_turns_count_in_the_digest_when_they_are_asked():
    one, two = (Prompt("a", "math", "x", more=more) for more in ((), ("y",)))
    assert digest([one]) == digest([two])
    assert digest([one], every_turn=True) != digest([two], every_turn=True)


def test_the_digest_follows_the_texts():
    prompts = some()
    assert digest(prompts) == digest(some())
    assert digest(prompts) != digest(prompts[1:])
    assert digest([Prompt("a", "math", "x")]) != digest([Prompt("a", "math", "y")])


def test_the_packaged_prompts_are_three_of_each_category_and_short():
    prompts = read_prompts(DEFAULT)
    categories = [p.category for p in prompts]
    wanted = {"coding", "math", "reasoning", "rag", "summarization", "writing", "roleplay"}
    assert {c: categories.count(c) for c in categories} == dict.fromkeys(wanted, 3)
    assert max(len(p.text.split()) for p in prompts) <= 250
