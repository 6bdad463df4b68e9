from __future__ import annotations

import json

import pytest

from hybridspec.bench.options import SpeedOptions
from hybridspec.bench.prompts import Prompt
from hybridspec.bench.room import Skipped
from hybridspec.bench.setup import make_plan
from hybridspec.bench.speed import main
from hybridspec.engine import Engine
from hybridspec.errors import RequestError

SHORT, LONG = Prompt("a", "math", "1 + 1"), Prompt("b", "rag", "x" * 32_000)


@pytest.fixture
def options(flat_pair, tmp_path):
    return SpeedOptions(
        out=tmp_path,
        model=str(flat_pair.target),
        draft=str(flat_pair.draft),
        device="cpu",
        max_tokens=900,
    )


def test_prompts_are_encoded_as_the_engine_would(options):
    plan = make_plan(options, [SHORT, LONG])
    engine = Engine.load(options.model, options.draft, device="cpu", progress=False)
    assert plan.encoded == {"a": engine.encode("1 + 1", chat=True)}
    assert plan.context == engine.max_context
    assert plan.prompts == (SHORT,)
    assert plan.skipped == (Skipped("b", "rag", len(engine.encode(LONG.text, chat=True))),)


def test_a_conversation_needs_room_for_all_its_answers(options):
    from dataclasses import replace

    talk = Prompt("c", "math", "x" * 15_000, more=("x" * 15_000,))
    assert make_plan(options, [SHORT, talk]).skipped == ()
    longer = replace(options, turns="all", max_tokens=1400)
    assert [s.prompt for s in make_plan(longer, [SHORT, talk]).skipped] == ["c"]


def test_nothing_that_fits_is_refused(options):
    with pytest.raises(RequestError, match=r"No prompt fits the context of 32768 .*has \d{5}"):
        make_plan(options, [LONG])


def test_what_is_skipped_is_counted_and_named(command, out, tmp_path, capsys):
    rows = [
        {"id": "a", "category": "math", "turns": ["1 + 1"], "split": "test"},
        {"id": "long", "category": "rag", "turns": ["x" * 33_000], "split": "test"},
    ]
    (tmp_path / "prompts.jsonl").write_text("\n".join(map(json.dumps, rows)))
    assert main(command) == 0
    said = capsys.readouterr().out
    assert "Skipped 1 of 2 prompts, too long for the context of 32768 with their answers: " in said
    assert json.loads(said.splitlines()[-1])["skipped"] == 1
    results = json.loads((out / "speed.json").read_text())
    assert results["prompts"] == {"math": 1}
    (skipped,) = results["skipped"]
    assert (skipped["prompt"], skipped["category"]) == ("long", "rag")
    assert skipped["tokens"] > 33_000
