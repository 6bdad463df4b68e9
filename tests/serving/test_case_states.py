"""State, kept prefixes and clients that go, through the server on every system (A11-A20).

After every answer the committed state is compared with a fresh run over its tokens: see `book`.
"""

from __future__ import annotations

import json

import pytest
from casebook import ASKED, SAMPLINGS, Case, crossed
from every_system import EACH, Stage, tolerance
from heard import CHAT, TEXT, streamed, unlike, whole

from scripted_text import draft
from served import until

OPENING = "<|im_start|>assistant\n<think>\n\n</think>\n\n"  # a turn goes on before it
EVERY_COUNT = tuple(range(16))  # of accepted drafts
EDGES = (511, 512, 513, 1039, 1040, 1041)  # a prompt's part, a drafter's ring


def own(body, plan, **more):
    return Case({"max_tokens": 14, "ignore_eos": True, **body}, plan=plan, **more)


def after(length, **more):
    """After a prompt of so many tokens."""
    prompt = [1000 + 7 * i % 900 for i in range(length)]
    return own({"prompt": prompt}, (2, 9, 0), path=TEXT, **more)


CASES = {
    "a11-every-count": own({"max_tokens": 138}, EVERY_COUNT, daily=False),
    "a11-short": own({}, (0, 3, 7, 1, 5)),
    "a13-small": own({"prompt": "x"}, (2, 0, 14), path=TEXT),
    **{f"a13-{n}": after(n, daily=False) for n in EDGES},
    "a20-twenty": own(
        {"messages": [{"role": "user", "content": "Count from 1 to 20."}], "ignore_eos": False},
        (99,),
    ),
}


@crossed(CASES)
def test_tokens_are_plain_decodings(book, case, system, sampling, form):
    book.check(case, system, sampling, form)


@pytest.fixture(scope="module")
def _kept():
    with Stage(prefix_memory=64 * 2**20) as stage:
        yield stage


@pytest.fixture
def kept(_kept, book) -> Stage:
    """Servers whose engines keep states; nothing is kept yet."""
    for name in ("single", "double"):
        if name in vars(_kept):
            getattr(_kept, name)._prefixes.store.clear()
    return _kept


def asked(stage, system, body, beside=None, cold=False):
    """An answer, and how many tokens of its prompt were not run."""
    engine = stage.engine(beside or system)
    if cold:
        engine._prefixes.store.clear()
    draft(engine, (), plan=())
    answer = whole(stage.server(system, beside), CHAT, {"max_tokens": 9, **body})
    cached = answer["usage"]["prompt_tokens_details"].pop("cached_tokens")
    return answer, cached


@pytest.mark.parametrize("sampling", ["greedy", pytest.param("seeded", marks=pytest.mark.full)])
@pytest.mark.parametrize("system", EACH)
def test_a14_the_same_and_another_end_of_a_prompt(kept, system, sampling):
    """Three times the same, then one that leaves it in the midst of a message."""
    told = {"role": "system", "content": "You are asked of gardens, and you answer briefly."}
    body = {"messages": [told, *ASKED], **SAMPLINGS[sampling]}
    other = {**body, "messages": [told, {"role": "user", "content": "What should I eat?"}]}
    law = [asked(kept, "ar", b, system, cold=True) for b in (body, other)]
    kept.engine(system)._prefixes.store.clear()
    first, *more, last = [asked(kept, system, b) for b in (body, body, body, other)]
    assert (first[1], law[0][1]) == (0, 0)
    for answer, cached in more:
        assert cached > 0
        assert unlike(answer, law[0][0], tolerance(system)) == []
    assert last[1] > 0
    assert unlike([first[0], last[0]], [law[0][0], law[1][0]], tolerance(system)) == []


@pytest.mark.parametrize("turns", [pytest.param(40, marks=pytest.mark.full), 4])
@pytest.mark.parametrize("system", EACH)
def test_a15_a16_every_turn_goes_on_from_the_last(kept, system, turns):
    """A conversation that grows: answers are those of plain decoding from nothing."""
    body = {**SAMPLINGS["seeded"], "ignore_eos": True}
    opening = len(kept.engine(system).encode(OPENING))
    messages, before, plain = [], None, []
    for turn in range(turns):
        messages.append({"role": "user", "content": f"Tell me of flower {turn}."})
        answer, cached = asked(kept, system, {**body, "messages": messages})
        assert cached == (0 if before is None else before - opening)
        before = answer["usage"]["prompt_tokens"]
        plain.append((list(messages), answer))
        messages.append({"role": "assistant", "content": answer["choices"][0]["text"]})
    for said, answer in plain if turns < 9 else plain[:: turns // 5]:
        law, _ = asked(kept, "ar", {**body, "messages": said}, system, cold=True)
        assert unlike(answer, law, tolerance(system)) == []


@pytest.mark.parametrize("system", EACH)
@pytest.mark.parametrize("events", [0, pytest.param(1, marks=pytest.mark.full), 3])
def test_a19_who_goes_leaves_nothing_behind(book, system, events):
    """While the prompt is read, after the first token, and between two rounds."""
    server, engine = book.stage.server(system), book.stage.engine(system)
    short = {"prompt": "The garden", "max_tokens": 8, "temperature": 0}
    draft(engine, (), plan=())
    before = streamed(server, TEXT, short)
    long = {"max_tokens": 2000, "ignore_eos": True, "stream": True}
    prompt = [1000] * 3000 if events == 0 else "The garden"  # in parts of 512
    told = server.metric("generation_tokens_total")
    connection = server.send(TEXT, {**long, "prompt": prompt})
    until(lambda: server.metric("num_requests_running") == 1)
    if events:
        got = b""
        while got.count(b"data: ") < events:
            got += connection.recv(4096)
        assert json.loads(got.split(b"data: ")[1].split(b"\n")[0])["choices"]
    connection.close()
    until(server.idle)
    assert server.metric("generation_tokens_total") - told < 2000
    assert streamed(server, TEXT, short) == before
