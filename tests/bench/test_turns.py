from __future__ import annotations

import json

import pytest

from bench.bench_records import by_key, record
from hybridspec.bench import measure
from hybridspec.bench.equality import compared, differences
from hybridspec.bench.journal import RECORDS, Journal
from hybridspec.bench.options import SpeedOptions
from hybridspec.bench.prompts import Prompt
from hybridspec.bench.records import Key
from hybridspec.bench.setup import make_plan
from hybridspec.bench.speed import main
from hybridspec.bench.turns import comparable, messages, question
from hybridspec.core import SamplingParams

TALK = Prompt("a", "math", "1 + 1", more=("2 + 2", "3 + 3"))


@pytest.fixture
def plan(pair, tmp_path):
    options = SpeedOptions(
        out=tmp_path,
        systems=("ar", "static:3"),
        model=str(pair.target),
        draft=str(pair.draft),
        turns="all",
        max_tokens=5,
        device="cpu",
    )
    return make_plan(options, [TALK, Prompt("b", "rag", "Where?")])


def test_a_chat_is_turns_and_answers_in_order():
    assert messages(TALK, []) == [{"role": "user", "content": "1 + 1"}]
    roles = [(m["role"], m["content"]) for m in messages(TALK, ["2", ""])]
    assert roles == [
        *(("user", "1 + 1"), ("assistant", "2"), ("user", "2 + 2")),
        *(("assistant", ""), ("user", "3 + 3")),
    ]


def test_every_turn_is_a_generation_after_those_before_it(plan):
    assert [(k.prompt, k.system, k.turn) for k in plan.schedule] == [
        *(("a", "ar", 0), ("a", "ar", 1), ("a", "ar", 2)),
        *(("a", "static:3", 0), ("a", "static:3", 1), ("a", "static:3", 2)),
        *(("b", "static:3", 0), ("b", "ar", 0)),
    ]
    engine, journal = measure.load(plan.options), Journal(plan.options.out, plan.setup)
    measure.run(engine, plan, journal, lambda _: None)
    chat = [{"role": "user", "content": "1 + 1"}]
    for turn, text in enumerate(("2 + 2", "3 + 3", None)):
        answer = engine.generate(chat, SamplingParams(max_tokens=5), system="ar")
        kept = journal.records[Key(0, "a", "ar", turn)]
        assert (kept.token_ids, kept.prompt_tokens) == (answer.token_ids, answer.prompt_tokens)
        chat.append({"role": "assistant", "content": answer.text})
        chat.append({"role": "user", "content": text})


def test_a_talk_goes_on_in_the_middle(plan):
    engine, journal = measure.load(plan.options), Journal(plan.options.out, plan.setup)
    measure.run(engine, plan, journal, lambda _: None)
    whole = {key: record.token_ids for key, record in journal.records.items()}
    again = Journal(plan.options.out, plan.setup)
    lost = [Key(0, "a", "ar", 2), Key(0, "a", "static:3", 1), Key(0, "a", "static:3", 2)]
    for key in lost:
        del again.records[key]
    measure.run(engine, plan, again, lambda _: None)
    assert {key: record.token_ids for key, record in again.records.items()} == whole


def test_only_the_first_difference_of_a_conversation_is_one():
    records = by_key(
        *(record("a", turn=t) for t in range(3)),
        record("a", "x"),
        record("a", "x", tokens=[7, 8, 1], turn=1),
        record("a", "x", tokens=[1, 1, 1], turn=2),  # was asked something else
        record("a", "y"),
    )
    flat = comparable(records, "ar")
    assert compared(flat, "ar") == 3
    (found,) = differences(flat, "ar")
    assert (found.prompt, found.system, found.position) == ("a, turn 2", "x", 2)
    assert question(Key(0, "a", "x")) == "a"


def test_the_bench_reports_turns(command, out, tmp_path, capsys):
    rows = [{"id": "a", "category": "math", "turns": ["1 + 1", "2 + 2"], "split": "test"}]
    (tmp_path / "prompts.jsonl").write_text("\n".join(map(json.dumps, rows)))
    assert main([*command, "--turns", "all"]) == 0
    assert "every turn of a conversation" in capsys.readouterr().out
    results = json.loads((out / "speed.json").read_text())
    assert results["systems"]["dflash"]["generations"] == 2
    assert results["equality"]["compared"] == 4
    # a difference in a second turn is found, and looked at after its own conversation
    lines = [json.loads(line) for line in (out / RECORDS).read_text().splitlines()]
    for line in lines:
        if line.get("system") == "dflash" and line.get("turn") == 1:
            line["token_ids"][2] = 99
    (out / RECORDS).write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert main([*command, "--turns", "all"]) == 1
    (found,) = json.loads((out / "speed.json").read_text())["equality"]["differences"]
    assert (found["prompt"], found["gap"], found["regret"]) == ("a, turn 2", 0.0, 0.0)
