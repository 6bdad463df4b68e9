"""Penalties, bias, filters and seeds through the server on every system (A32-A36)."""

from __future__ import annotations

import pytest
from casebook import ASKED, SAMPLINGS, Case, crossed
from every_system import EACH, LEAD
from heard import CHAT, TEXT, streamed

from scripted_text import draft
from served import events

TOKENS = 13
MIXED = (0, 3, 99, 1, 7)


def own(body, path=CHAT, **more):
    """The model's own words, of which a parameter makes others; all drafts are right."""
    text = "Repeat: the the the the"  # after it penalties tell soon
    asked = {"messages": [{"role": "user", "content": text}]} if path == CHAT else {"prompt": text}
    return Case({**asked, "max_tokens": TOKENS, "ignore_eos": True, **body}, path=path, **more)


def within(distance, **more):
    """The second token comes again so much later, both in one block: its lead is 1, the penalty
    more, so the second time it is not said."""
    script = (*range(1000, 1001 + distance), 1001, *range(1020, 1040))
    again = distance + 1

    def holds(choice):
        assert tuple(choice["token_ids"][:again]) == script[:again]
        assert choice["token_ids"][again] != script[again]

    body = {"presence_penalty": 1.5, "logprobs": True, "max_tokens": again + 4}
    return Case({**body, **more}, script, holds, above=1.0)


CASES = {
    "a32-presence": own({"presence_penalty": 1.5}),
    "a32-presence-errors": own({"presence_penalty": 1.5}, plan=MIXED),
    "a32-frequency": own({"frequency_penalty": 0.9}),
    **{f"a32-within-{n}": within(n) for n in (1, 2, 14)},
    "a32-within-frequency": within(4, presence_penalty=0, frequency_penalty=1.5),
    "a32-repetition": own({"repetition_penalty": 1.3}),
    "a32-negative": own({"presence_penalty": -2.0, "frequency_penalty": -2.0}, daily=False),
    "a32-bias": own({"logit_bias": {"290": -100, "714": 5}}, daily=False),
    "a32-all": own(
        {
            "presence_penalty": 0.5,
            "frequency_penalty": 0.5,
            "repetition_penalty": 1.2,
            "logit_bias": {"290": -100},
            "logprobs": True,
            "top_logprobs": 3,
        },
        plan=MIXED,
    ),
    "a32-completion": own({"presence_penalty": 2, "repetition_penalty": 1.5}, path=TEXT),
    "a33-choices": own({"n": 2, "max_tokens": 5}),
    "a33-bounded": own({"max_completion_tokens": 7, "max_tokens": 99}, daily=False),
    "a33-stop-ids": own({"stop_token_ids": list(range(300, 4000, 7))}),
    "a33-json": Case(
        {"response_format": {"type": "json_object"}, "max_tokens": TOKENS}, daily=False
    ),
    "a34-cooler": own({"temperature": 0.6, "seed": 9}, daily=False),
    "a34-filters": own({"temperature": 1.0, "seed": 8, "top_k": 20, "top_p": 0.95, "min_p": 0.02}),
    "a34-hot": own({"temperature": 1.8, "seed": 7, "top_k": 0, "top_p": 1.0}, daily=False),
}


@crossed(CASES, "a32-within-2")
def test_a_draw_is_plain_decodings(book, case, system, sampling, form):
    if "response_format" in case.body:
        pytest.importorskip("xgrammar")
    book.check(case, system, sampling, form)


@pytest.mark.parametrize("sampling", SAMPLINGS)
def test_a33_no_parameter_is_dropped(book, sampling):
    """Plain decoding's answer with each of them is another one than without."""
    without = {TEXT: own({}, path=TEXT), CHAT: own({})}
    for name, case in CASES.items():
        if name.startswith("a32" if sampling == "greedy" else ("a32", "a34")) and case.daily:
            if case.says is not None:
                continue
            law = book.plain(case, sampling, LEAD)
            assert law["choices"] != book.plain(without[case.path], sampling, LEAD)["choices"], name


@pytest.mark.parametrize("system", EACH)
def test_a35_drafts_do_not_depend_on_the_temperature(book, system):
    """Of the first round, after the same token: the bias is not the drafter's."""
    engine = book.stage.engine(system)
    draft(engine, (), plan=())
    found = []
    for temperature in (0, 1.5):
        body = {"messages": ASKED, "logit_bias": {"1278": 100}, "max_tokens": 16, "seed": 1}
        body |= {"temperature": temperature, "stream": True, "return_rounds": True}
        found.append(first_drafts(book.stage.server(system).post(CHAT, body).text))
    assert len(found[0]) > 0
    assert all(drafts[: len(found[0])] == found[0][: len(drafts)] for drafts in found)


def first_drafts(text):
    """Ids of what the first round drafted."""
    rounds = [
        chunk["hybridspec"]["round"]
        for chunk in events(text)
        if "round" in chunk.get("hybridspec", {})
    ]
    return [token["id"] for token in rounds[1]["drafts"]]


@pytest.mark.parametrize("sampling", SAMPLINGS)
@pytest.mark.parametrize("system", EACH)
def test_a36_an_answer_that_was_stopped_goes_on_as_if_it_had_not_been(book, system, sampling):
    """Draws belong to places: those of the drafts behind a stop are made anew as they were."""
    engine, server = book.stage.engine(system), book.stage.server(system)
    ids = engine.encode("The garden in the morning")
    body = {**SAMPLINGS[sampling], "ignore_eos": True, "max_tokens": TOKENS}
    draft(engine, ())
    whole = tokens(server, {**body, "prompt": ids})
    for stopped_at in (1, 7):
        draft(engine, whole)
        first = tokens(server, {**body, "prompt": ids, "max_tokens": stopped_at})
        draft(engine, whole[stopped_at:])
        rest = {"prompt": ids + first, "max_tokens": TOKENS - stopped_at}
        assert first + tokens(server, {**body, **rest}) == whole


def tokens(server, body):
    return streamed(server, TEXT, body)["choices"][0]["token_ids"]
