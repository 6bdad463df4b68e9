from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from hybridspec.bench import measure
from hybridspec.bench.journal import Journal
from hybridspec.bench.options import SpeedOptions
from hybridspec.bench.prompts import Prompt
from hybridspec.bench.records import Key
from hybridspec.bench.setup import make_plan
from hybridspec.core import SamplingParams
from hybridspec.errors import RequestError

PROMPTS = [Prompt("a", "math", "1 + 1"), Prompt("b", "rag", "Where?")]


@pytest.fixture
def plan(flat_pair, tmp_path):
    options = SpeedOptions(
        out=tmp_path,
        systems=("ar", "static:3", "dflash"),
        model=str(flat_pair.target),
        draft=str(flat_pair.draft),
        max_tokens=7,
        repeats=2,
        device="cpu",
    )
    return make_plan(options, PROMPTS)


@pytest.fixture
def engine(plan):
    return measure.load(plan.options)


def run(engine, plan, journal=None):
    journal = journal or Journal(plan.options.out, plan.setup)
    steps = []
    measure.run(engine, plan, journal, steps.append)
    return journal, steps


def test_every_generation_is_measured_once_in_rotating_order(engine, plan):
    journal, steps = run(engine, plan)
    assert list(journal.records) == plan.schedule
    assert len(plan.schedule) == len(set(plan.schedule)) == 2 * 2 * 3
    assert [k.system for k in plan.schedule[:6]] == [
        *("ar", "static:3", "dflash"),
        *("static:3", "dflash", "ar"),
    ]
    assert steps[:2] == ["warm-up ar", "warm-up static:3"]
    assert steps[8:] == [f"{k.prompt} {k.system}" for k in plan.schedule]


def test_at_least_8_generations_are_discarded_and_said_so(engine, plan):
    journal, steps = run(engine, plan)
    assert sum(step.startswith("warm-up") for step in steps) == 8
    assert journal.runs[0]["warmup_generations"] == 8
    assert journal.runs[0]["warmup_tokens"] == 7
    assert len(journal.records) == len(plan.schedule)
    many = tuple(f"static:{w}" for w in range(1, 13))
    options = dataclasses.replace(plan.options, systems=many)
    assert measure.warmup_count(dataclasses.replace(plan, options=options)) == 12


def test_records_hold_what_the_engine_reports(engine, plan):
    journal, _ = run(engine, plan)
    for key, record in journal.records.items():
        text = next(p.text for p in PROMPTS if p.id == key.prompt)
        answer = engine.generate(text, SamplingParams(max_tokens=7), system=key.system, chat=True)
        assert record.token_ids == answer.token_ids
        assert record.prompt_tokens == answer.prompt_tokens
        assert record.finish_reason == answer.finish_reason == "length"
        ours = [(r.w, r.accepted, r.committed) for r in record.rounds]
        assert ours == [(r.w, r.accepted, r.committed) for r in answer.stats.rounds]
        assert sum(r.committed for r in record.rounds) == record.decode_tokens == 6
        # the round's time holds the engine's own, which leaves out what is around it
        assert sum(r.seconds for r in record.rounds) >= record.decode_seconds > 0
        assert record.prefill_seconds > 0
    by_system = {k.system: [r.w for r in v.rounds] for k, v in journal.records.items()}
    assert by_system == {"ar": [1] * 6, "static:3": [3, 3], "dflash": [6]}


def test_the_drafts_a_round_left_are_judged_by_the_answer(engine):
    """The flat pair's drafts are all right: those within the answer would have been accepted."""
    params = SamplingParams(max_tokens=8)
    record = measure.measure(engine, Key(0, "a", "static:2"), "math", [40, 41], params)
    proposed = [r.proposed for r in record.rounds]
    for r, m, done in zip(record.rounds, proposed, (1, 3, 5, 7), strict=True):
        left = 8 - done  # tokens after the round's anchor
        assert (r.judged, r.missed) == (min(m, left) - (r.w - 1),) * 2
        assert r.unverified == m - (r.w - 1)


def test_what_is_done_is_not_run_again(engine, plan):
    first, _ = run(engine, plan)
    kept = dict(list(first.records.items())[:5])
    first.path.unlink()
    again = Journal(plan.options.out, plan.setup)
    for record in kept.values():
        again.add(record)
    _, steps = run(engine, plan, again)
    assert steps[8:] == [f"{k.prompt} {k.system}" for k in plan.schedule[5:]]
    assert set(again.records) == set(plan.schedule)
    assert {k: again.records[k] for k in kept} == kept


def test_an_error_names_the_prompt_and_the_system(engine, plan, monkeypatch):
    def fail(*_):
        raise RequestError("The logits are not finite.")

    monkeypatch.setattr(measure, "measure", fail)
    with pytest.raises(RequestError, match="Prompt 'a' with ar: The logits are not finite"):
        run(engine, plan)


def test_the_debug_check_is_refused(engine, plan, monkeypatch):
    monkeypatch.setenv("HYBRIDSPEC_CHECK", "1")
    with pytest.raises(RequestError, match="HYBRIDSPEC_CHECK"):
        run(engine, plan)


def test_a_single_token_answer_has_no_rounds(engine):
    one = SamplingParams(max_tokens=1)
    record = measure.measure(engine, Key(0, "a", "static:3"), "math", [40, 41], one)
    assert len(record.token_ids) == 1
    assert (record.rounds, record.decode_tokens, record.decode_seconds) == ((), 0, 0.0)


def test_sampled_answers_are_drawn_with_one_seed(engine):
    options = SpeedOptions(out=Path("out"), temperature=1.0, seed=3)
    params = measure.sampling(options, 12)
    assert (params.temperature, params.seed, params.max_tokens) == (1.0, 3, 12)
    assert measure.sampling(SpeedOptions(out=Path("out")), 12) == SamplingParams(max_tokens=12)
    systems = ("ar", "static:3", "static:16")
    answers = {
        measure.measure(engine, Key(0, "a", s), "math", [40, 41], params).token_ids for s in systems
    }
    assert len(answers) == 1


@pytest.mark.parametrize(("name", "bad"), [("temperature", -0.1), ("temperature", float("nan")),
                                           ("temperature", 101.0), ("seed", -1)])  # fmt: skip
def test_sampling_out_of_range(name, bad):
    with pytest.raises(RequestError, match=f"--{name} is"):
        SpeedOptions(out=Path("out"), **{name: bad})
