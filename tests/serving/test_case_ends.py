"""Stop, length and usage inside an accepted block, through the server on every system (A01-A09)."""

from __future__ import annotations

import pytest
from casebook import ASKED, Case, crossed
from every_system import EACH, SYSTEMS, all_named, named
from heard import CHAT, TEXT

from scripted_text import say

WORDS = "one two three four five six seven eight"
NUMBERS = tuple(range(1000, 1040))  # tokens, each its own
ENDS = (8130, 8128)  # the embedded pair's: two
THOUGHT = "It grows, I think.\n</think>\n\nYes, slowly."
THINK = {"enable_thinking": True}
# A template that says nothing of thoughts: the answer opens its own, perhaps after a line end.
BARE = """{% for m in messages %}<|im_start|>{{ m.role }}
{{ m.content }}<|im_end|>
{% endfor %}<|im_start|>assistant
"""


def ends(reason, tokens=None, text=None, thinking=0):
    """A look at an answer: how it ended, its tokens or how many, and its text."""

    def holds(choice):
        usage, ids = choice["usage"], choice["token_ids"]
        assert choice["finish_reason"] == reason
        assert usage["completion_tokens"] == len(ids)
        assert usage["completion_tokens_details"]["reasoning_tokens"] == thinking
        assert tokens in (None, len(ids), tuple(ids))
        assert text in (None, choice["text"])

    return holds


def stop_and_limit(limit, stop, reason, text, **more):
    return Case({"stop": stop, "max_tokens": limit}, WORDS, ends(reason, text=text), **more)


def end_at(place, end, **more):
    ids = (*NUMBERS[:place], end, *NUMBERS)
    return Case({}, ids, ends("stop", ids[: place + 1]), **more)


def limited(limit, **more):
    return Case({"max_tokens": limit}, NUMBERS, ends("length", NUMBERS[:limit]), **more)


def cut_thought(limit):
    """A09: eight tokens of the thought, `</think>` the last of them."""
    thinking = min(limit, 8)
    return Case({"max_tokens": limit, **THINK}, THOUGHT, ends("length", limit, thinking=thinking))


def own_thought(before):
    """Its tokens with `<think>` and the line end before it."""
    holds = ends("stop", text="Yes, slowly.", thinking=10 + len(before))
    return Case({}, f"{before}<think>\n{THOUGHT}", holds, template=BARE)


CASES = {
    "a01-stop": stop_and_limit(100, "four", "stop", "one two three "),
    "a01-stop-at-the-limit": stop_and_limit(4, "four", "stop", "one two three "),
    "a01-limit-before": stop_and_limit(3, "four", "length", "one two three"),
    "a01-limit-within": stop_and_limit(5, " five six", "length", "one two three four five"),
    "a01-two-stops": stop_and_limit(9, ["seven", "e t", "hree"], "stop", "on"),
    "a04-first": end_at(0, ENDS[0]),
    **{f"a04-{n}": end_at(n, ENDS[0], daily=n in (1, 8, 16)) for n in range(1, 19)},
    "a04-late": Case({}, end_at(9, ENDS[0]).says, ends("stop", 10), (3, 1)),
    "a06-other-end": end_at(7, ENDS[1]),
    "a06-named-end": Case({"stop_token_ids": [NUMBERS[5]]}, NUMBERS, ends("stop", NUMBERS[:6])),
    "a06-no-end": Case(
        {"ignore_eos": True, "max_tokens": 9},
        (*NUMBERS[:3], *ENDS, *NUMBERS),
        ends("length", (*NUMBERS[:3], *ENDS, *NUMBERS[:4])),
    ),
    **{f"a08-{n}": limited(n, daily=n != 2) for n in (1, 2, 15, 16, 17, 31)},
    "a08-completion": Case(
        {"max_tokens": 21}, NUMBERS, ends("length", NUMBERS[:21]), (2, 9), TEXT, daily=False
    ),
    "a09-whole": Case(THINK, THOUGHT, ends("stop", 14, "Yes, slowly.", 8)),
    **{f"a09-{n}": cut_thought(n) for n in (1, 7, 8, 9)},
    "a09-opened": own_thought(""),
    "a09-opened-late": own_thought("\n"),
}


def test_every_system_is_here():
    assert named() == all_named()
    assert "ar" not in SYSTEMS


@crossed(CASES, "a01-stop")
def test_the_end_is_plain_decodings(book, case, system, sampling, form):
    book.check(case, system, sampling, form)


@pytest.mark.parametrize(
    ("body", "tokens"),
    [
        *(({"max_tokens": n}, n) for n in (1, 2, 15, 16, 17, 31)),
        ({"stop_token_ids": [NUMBERS[5]]}, 6),  # with more accepted behind it
    ],
    ids=str,
)
@pytest.mark.parametrize("system", EACH)
def test_a08_the_metrics_count_what_was_sent(book, system, body, tokens):
    server = book.stage.server(system)
    say(book.stage.engine(system), NUMBERS)
    names = ("generation_tokens_total", "request_generation_tokens_sum", "prompt_tokens_total")
    before = [server.metric(name) for name in names]
    usage = server.post(CHAT, {"messages": ASKED, **body}).json()["usage"]
    after = [server.metric(name) for name in names]
    assert [b - a for a, b in zip(before, after, strict=True)] == [
        tokens, tokens, usage["prompt_tokens"],
    ]  # fmt: skip
    assert usage["completion_tokens"] == tokens
