from __future__ import annotations

import json
from dataclasses import replace

import pytest

from hybridspec.bench.prompts import read_prompts
from hybridspec.bench.tasks import kind_of, read_tasks
from hybridspec.errors import RequestError

CHECK = "def check(candidate):\n    assert candidate() == 1\n"


def tasks(tmp_path, *more):
    path = tmp_path / "tasks.jsonl"
    base = {"category": "math", "turns": ["?"]}
    path.write_text("\n".join(json.dumps({**base, "id": f"t{i}", **m}) for i, m in enumerate(more)))
    return read_tasks(path, read_prompts(path))


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        ("18", "number"), ("1,600", "number"), ("-3.5", "number"), ("$20", "number"),
        ("5%", "number"), ("5 %", "number"), ("-$5", "number"), (".5", "number"), ("-.5", "number"),
        ("$.5", "number"), ("5 ducks", "text"), ("%", "text"), ("$", "text"), ("3-5", "text"),
        ("(B)", "choice"), ("D", "choice"), ("False", "word"), ("yes", "word"),
        ("four", "text"), ("760 mm (2 ft 6 in) narrow gauge lines", "text"), ("China", "text"),
    ],
)  # fmt: skip
def test_how_an_answer_is_judged_follows_from_its_looks(answer, kind):
    assert kind_of(answer) == kind


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (0.00001, "0.00001"), (1e22, "10000000000000000000000"), (-2.5e-7, "-0.00000025"),
        (18.0, "18.0"), (7, "7"), ("She has <<2+2=4>>4 of 9.\n#### 4", "4"),
        ("#### 1\nNo.\n#### -1,200 ", "-1,200"),
    ],
)  # fmt: skip
def test_numbers_have_no_exponent_and_no_way_to_them(tmp_path, answer, text):
    (task,) = tasks(tmp_path, {"answer": answer})
    assert (task.kind, task.answer) == ("number", text)


def test_a_file_that_changes_in_between_is_said(tmp_path):
    (task,) = tasks(tmp_path, {"answer": "1"})
    with pytest.raises(RequestError, match="has changed while it was read: 'gone' is gone"):
        read_tasks(tmp_path / "tasks.jsonl", [replace(task.prompt, id="gone")])


def test_rows_of_every_kind_keep_their_order(tmp_path):
    code = {"test": CHECK, "entry_point": "one"}
    found = tasks(tmp_path, {"answer": "18"}, {}, code, {"answer": 7})
    assert [(t.prompt.id, t.kind, t.answer) for t in found] == [
        ("t0", "number", "18"),
        ("t2", "code", ""),
        ("t3", "number", "7"),
    ]
    assert (found[1].test, found[1].entry_point) == (CHECK, "one")


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ({"answer": ["18"]}, "expected a string or a number"),
        ({"answer": True}, "expected a string or a number"),
        ({"answer": float("nan")}, "expected a string or a number"),
        ({"answer": " "}, "answer is empty"),
        ({"test": "assert 1", "entry_point": "f"}, r"does not define check\(candidate\)"),
        ({"test": CHECK}, "entry_point is None"),
        ({"test": CHECK, "entry_point": "os.system('x')"}, "a function's name"),
        ({"entry_point": "f"}, "does not define"),
    ],
)
def test_a_row_of_another_shape_is_named(tmp_path, row, words):
    with pytest.raises(RequestError, match=f"line 2: .*{words}"):
        tasks(tmp_path, {"answer": "1"}, row)
