"""Log-probabilities and figures of drafting through the server on every system (A57, A58).

A58's invariants are looked at in every answer of every case: `heard.check_facts`.
"""

from __future__ import annotations

import pytest
from casebook import ASKED, Case, crossed
from every_system import EACH
from heard import CHAT, TEXT

from scripted_text import say
from served import events

PLAN = (2, 0, 99, 5)


def listed(top):
    """Every token has its entry, the likely ones in order."""

    def holds(choice):
        entries = choice["logprobs"]["content"]
        assert len(entries) == len(choice["token_ids"])
        for entry in entries:
            likely = [other["logprob"] for other in entry["top_logprobs"]]
            assert len(likely) == top
            assert likely == sorted(likely, reverse=True)
            assert all(value <= 0 for value in (entry["logprob"], *likely))

    return holds


def own(body, holds=lambda choice: None, **more):
    return Case({"max_tokens": 11, **body}, holds=holds, plan=PLAN, **more)


CASES = {
    "a57-0": own({"logprobs": True}, listed(0), daily=False),
    "a57-5": own({"logprobs": True, "top_logprobs": 5}, listed(5)),
    "a57-20": own({"logprobs": True, "top_logprobs": 20}, listed(20)),
    "a57-stop": own({"logprobs": True, "max_tokens": 30, "stop": ["."]}, listed(0)),
    "a57-penalty": own({"logprobs": True, "top_logprobs": 5, "frequency_penalty": 1}, listed(5)),
    "a57-completion": own({"logprobs": 5}, path=TEXT),
    "a57-echo": own({"logprobs": 2, "echo": True}, path=TEXT, daily=False),
}


@crossed(CASES)
def test_logprobs_are_plain_decodings(book, case, system, sampling, form):
    book.check(case, system, sampling, form)


@pytest.mark.parametrize("system", EACH)
def test_a58_the_histogram_is_that_of_the_rounds(book, system):
    """As a client counts it who sees every round of the stream; an end inside the last is trimmed
    from the tokens and not from the histogram."""
    server, ids = book.stage.server(system), tuple(range(1000, 1040))
    say(book.stage.engine(system), ids, PLAN)
    body = {"messages": ASKED, "temperature": 0, "return_rounds": True, "stream": True}
    *chunks, last = events(server.post(CHAT, body).text)
    rounds = [c["hybridspec"]["round"] for c in chunks if "round" in c.get("hybridspec", {})][1:]
    counts = last["metrics"]["speculative_decoding"]["acceptance_histogram"]
    accepted = [r["accepted"] for r in rounds]
    assert counts == [accepted.count(j) for j in range(16)]
    assert last["hybridspec"]["verification_length_histogram"] == [
        [r["w"] for r in rounds].count(w) for w in range(17)
    ]
    assert max(accepted) > 0, "no round of more than one token"
    assert 1 + sum(len(r["tokens"]) for r in rounds) == len(ids) + 1
    assert all(len(r["tokens"]) == r["accepted"] + 1 for r in rounds[:-1])
