"""What a reply says, and the program it makes."""

from __future__ import annotations

import pytest

from hybridspec.bench.grading import is_right, program, said
from hybridspec.bench.tasks import kind_of

THINK = "<think>It may be 7. The answer is (C), so no.</think>"


@pytest.mark.parametrize(
    ("reply", "found"),
    [
        ("2 + 3 = 5, so 5 ducks.", "5"),
        ("It is 18.\n#### 18", "18"),
        ("The answer is 1,600 dollars; in 3 days.", "3"),  # the last on the line of the answer
        ("The answer is 42.\nThat took 7 steps.", "42"),
        ("So we get \\boxed{12}$. See page 9.", "12"),
        ("**Answer:** -3.50", "-3.50"),
        ("from 3-5", "5"),
        ("costs $70,000", "70,000"),
        ("1,2,3", "3"),
        ("a share of .5", ".5"),
        ("a loss of -$5", "-$5"),
        ("-.25 of it", "-.25"),
        ("see section 3.5.7", "7"),
        ("the end.5 ducks", "5"),
        ("It is 5%.", "5"),
        ("উত্তর ১৬০", "১৬০"),
        ("I do not know.", None),
        (f"{THINK} 11", "11"),
        (THINK, None),
    ],
)
def test_the_number_of_a_reply(reply, found):
    assert said("number", reply) == found


@pytest.mark.parametrize(
    ("found", "answer", "right"),
    [
        ("18", "18", True), ("18.00", "18", True), ("1600", "1,600", True),
        ("70,000", "$70000", True), ("১৬০", "160", True), ("\u22123", "-3", True),
        ("5", "5%", True), ("5", "$5", True), ("-$5", "-5", True), ("-5", "-$5", True),
        ("0.5", ".5", True), ("0.00001", "0.000010", True), ("5", "-$5", False),
        ("18", "81", False), ("3", "-3", False), (None, "18", False),
    ],
)  # fmt: skip
def test_numbers_are_compared_as_numbers(found, answer, right):
    assert is_right("number", found, answer) == right


@pytest.mark.parametrize(
    ("reply", "found"),
    [
        ("(A) is wrong, (B) is wrong. The answer is (C).", "C"),
        ("The answer is D because (A) fails.", "D"),
        ("B) a rocky mantle", "B"),
        ("C", "C"),
        ("**D**. Both", "D"),
        ("It is (A), not (B)", "B"),
        ("All of them are likely.", None),
        ("Answers differ.", None),
        (f"{THINK}\n(E)", "E"),
    ],
)
def test_the_choice_of_a_reply(reply, found):
    assert said("choice", reply) == found


def test_choices_are_letters():
    assert is_right("choice", "C", "(C)")
    assert is_right("choice", "C", "C")
    assert not is_right("choice", "C", "(D)")


@pytest.mark.parametrize(
    ("reply", "answer", "right"),
    [
        ("not (True) is False. So the answer is False.", "False", True),
        ("True or False is True", "True", True),
        ("Yes. The answer is no", "yes", False),
        ("invalid", "valid", False),
        ("Nothing", "no", False),
    ],
)
def test_the_last_word_counts(reply, answer, right):
    assert is_right("word", said("word", reply, answer), answer) == right


@pytest.mark.parametrize(
    ("reply", "answer", "right"),
    [
        ("It was the Sunday  Times, University-of-the-Year Award.",
         "Sunday Times University of the Year award", True),
        ("fourteen", "four", False),
        ("Es dauert zehn Jahre", "zehn jahre", True),
        ("这是丰田Corona Mark II。", "丰田Corona Mark II", True),
        ("Nobody knows", "four", False),
    ],
)  # fmt: skip
def test_a_text_is_looked_for(reply, answer, right):
    assert is_right("text", said("text", reply, answer), answer) == right


@pytest.mark.parametrize(
    ("reply", "answer", "right"),
    [
        ("I do not know.", "] ) }", False),
        ("", "] ) }", False),
        ("The input is [ { (. So the answer is ) } ].", ") } ]", True),
        ("So the answer is )}].", ") } ]", True),
        ("So the answer is ) } ] ]", ") } ]", False),
        ("So the answer is ) }", ") } ]", False),
        ("We close them: **) } ]**", ") } ]", True),
        ("We close ) } ] first, then ) ).", ") } ]", False),
        ("> >", "> >", True),
        ("It is !.", "!", True),
        ("An exclamation mark", "!", False),
        ("It is a dot: .", ".", True),
    ],
)
def test_symbols_are_compared_literally(reply, answer, right):
    assert kind_of(answer) == "text"
    assert is_right("text", said("text", reply, answer), answer) == right


@pytest.mark.parametrize(
    ("reply", "answer", "right"),
    [
        ("It is written in C.", "C++", False),
        ("It is written in c++.", "C++", True),
        ("C++11", "C++", True),
        ("ABC++", "C++", False),
        ("C+++", "C++", False),
        ("at 3  :15", "3:15", False),
        ("at 13:15", "3:15", False),
        ("at 3:15.", "3:15", True),
        ("The O\u2019Brien\n case", "O'Brien case", True),
        ("x2", "x²", False),
        ("caf\u0065\u0301 au lait", "Caf\u00e9", True),
        ("20 C", "20 °C", False),
        ("20 °C", "20 °c", True),
    ],
)
def test_a_text_loses_no_characters(reply, answer, right):
    assert is_right("text", said("text", reply, answer), answer) == right


HEAD = 'import math\n\n\ndef helper(x):\n    return x\n\n\ndef root(x):\n    """Of x."""\n'
BODY = "    return math.sqrt(helper(x))\n"


@pytest.mark.parametrize(
    "reply",
    [
        BODY,
        BODY + "\n\ndef other():\n    raise SystemExit\n",
        BODY + "\nprint(root(input()))",
        f"Here:\n\n```python\ndef root(x):\n{BODY}```\nIt takes the root.",
        f"```\nfirst = 1 / 0\n```\n\n```python\ndef root(x):\n{BODY}```",
        f"def root(x):\n{BODY}",
        f"<think>def root(x): return 0</think>\n```python\ndef root(x):\n{BODY}",  # cut off
    ],
)
@pytest.mark.parametrize("prompt", [HEAD, f"Complete it.\n\n```python\n{HEAD}```"])
def test_programs_of_a_right_reply(prompt, reply):
    names = {}
    exec(program(prompt, reply, "root"), names)
    assert names["root"](9.0) == 3.0


def test_a_prompt_alone_is_no_answer():
    names = {}
    exec(program(HEAD, "", "root"), names)
    assert names["root"](9.0) is None
