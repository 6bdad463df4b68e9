"""The checks of a scripted run: what they pass, and that they find what they are there for."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import pytest
import torch

from bench.scripted_models import expected_of, tiny_pair
from bench.scripted_models import said as said_along
from hybridspec.bench.scripted.answers import Answers
from hybridspec.bench.scripted.check import Expected, ScriptError, check_control
from hybridspec.bench.scripted.executor import HostExecutor
from hybridspec.bench.scripted.runs import Runs
from hybridspec.errors import HybridSpecError
from hybridspec.systems import parse_system

TOKENS, CONTEXT = 60, 20
ALONG = {"category": "coding", "tokens": TOKENS}
said = partial(said_along, **ALONG)
SYSTEMS = ("static:2", "static:7", "dflash", "length16", "replayssm", "static:5:block")


@pytest.fixture(scope="module")
def answers() -> Answers:
    pair = tiny_pair()
    capacity = CONTEXT + TOKENS + 1
    made = Answers(pair, HostExecutor(pair, capacity), capacity)
    made.prompt(11, CONTEXT)
    return made


@pytest.fixture
def expected(answers) -> Expected:
    return expected_of(answers, **ALONG)


@pytest.mark.parametrize("system", SYSTEMS)
def test_every_system_passes(answers, expected, system):
    answer = said(answers, system)
    expected.check(system, parse_system(system, 16).verifier, answer)
    assert len(answer.rounds) < TOKENS


def test_answers_begin_at_the_same_state(answers):
    first = {name: part.clone() for name, part in said(answers, "static:5").state.items()}
    for name, part in said(answers, "static:5").state.items():
        assert torch.equal(part, first[name]), name


@pytest.mark.parametrize("system", ["static:2", "static:7", "length16"])
def test_a_commit_of_one_input_too_few_is_found(answers, expected, system):
    found = check_control(expected, said(answers, system, forget=True))
    assert "other GDN states than ar" in found


def test_a_control_that_passes_is_an_error(answers, expected):
    with pytest.raises(ScriptError, match="passed all checks"):
        check_control(expected, said(answers, "length16"))


def test_another_token_is_named(answers, expected):
    answer = said(answers, "static:4")
    wrong = (*answer.tokens[:7], answer.tokens[8], *answer.tokens[8:])
    with pytest.raises(ScriptError, match=f"token 7 is {answer.tokens[8]}; expected"):
        expected.check("static:4", "exact", replace(answer, tokens=wrong))
    with pytest.raises(ScriptError, match=f"there are 59 tokens; expected {TOKENS}"):
        expected.check("static:4", "exact", replace(answer, tokens=answer.tokens[:-1]))


@pytest.mark.parametrize("name", ["GDN states", "convolution windows", "keys", "values"])
def test_one_bit_of_a_state_is_found_where_bits_are_promised(answers, expected, name):
    answer = said(answers, "static:4")
    part = answer.state[name].clone()
    flat = part.flatten()
    flat[3] = torch.nextafter(flat[3], flat[3] + 1)
    other = replace(answer, state=answer.state | {name: flat.view_as(part)})
    with pytest.raises(ScriptError, match=f"other {name} than ar: 1 of"):
        expected.check("static:4", "exact", other)
    expected.check("static:4:block", "block", other)  # but for rounding


def test_more_than_rounding_is_found_for_every_verifier(answers, expected):
    answer = said(answers, "static:4")
    state = answer.state | {"keys": answer.state["keys"] * 1.01}
    with pytest.raises(ScriptError, match="other keys than ar"):
        expected.check("static:4:block", "block", replace(answer, state=state))
    short = answer.state | {"keys": answer.state["keys"][:, :, :-1]}
    with pytest.raises(ScriptError, match="committed"):
        expected.check("static:4", "exact", replace(answer, state=short))


def test_a_prompt_after_which_another_token_follows_is_refused(answers):
    cycle, head = answers.pair.cycle, answers.pair.target.head
    token = int(cycle.run(11 + CONTEXT, 1))
    kept = head[token].clone()
    head[token] = 0
    with pytest.raises(HybridSpecError, match="do not follow the cycle"):
        answers.prompt(11, CONTEXT)
    head[token] = kept
    answers.prompt(11, CONTEXT)


def test_a_run_of_several_systems_is_added_up(answers):
    runs = Runs(answers, [parse_system(name, 16) for name in ("ar", "dflash", "static:3")])
    rows = runs.all(["coding", "math"], 2, 30)
    assert runs.control().startswith(
        "a run that commits one input too few a round was found (it ended with other "
    )
    answers.prompt(11, CONTEXT)
    assert [*rows] == ["ar", "dflash", "static:3"]
    for categories in rows.values():
        assert [*categories] == ["coding", "math"]
        assert all(row.tokens == 60 for row in categories.values())
    assert rows["ar"]["math"].rounds == 60
    assert rows["dflash"]["coding"].rounds < rows["static:3"]["coding"].rounds < 60
