"""Kept prefixes on a GPU: with every launcher, an answer that goes on from a kept state is that of
a run without it, to the bit.

Run by `make test-gpu`.
"""

from __future__ import annotations

import pytest
from device_runs import GREEDY, SEEDED, fresh

from hybridspec import Engine
from hybridspec.runtime.prefix.cuts import Cuts
from reused import answer, assert_alike, keeping, store

pytestmark = pytest.mark.gpu
KNOWN: dict[str, Engine] = {}
SAID = ["What should I know about gardening?", "Tell me a story about a town.", "And then?"]


@pytest.fixture(scope="module", autouse=True)
def forget():
    yield
    KNOWN.clear()


def engine(launcher: str) -> Engine:
    """Cut as on a CPU, before every message: what is said here is short."""
    if launcher not in KNOWN:
        made = fresh(launcher, prefix_memory=1 << 28)
        KNOWN[launcher] = keeping(made, Cuts(100, {made.tokenizer.opening_id()}))
    store(KNOWN[launcher]).clear()
    return KNOWN[launcher]


@pytest.mark.parametrize("params", [GREEDY, SEEDED], ids=["greedy", "seeded"])
@pytest.mark.parametrize("system", ["ar", "static:4", "dflash", "replayssm", "static:5:block"])
@pytest.mark.parametrize("launcher", ["host", "loop", "switch"])
def test_turns_go_on_from_kept_states(launcher, system, params):
    """bf16 has near ties everywhere: equal tokens mean equal bits."""
    e, messages, cached = engine(launcher), [], []
    for text in SAID:
        messages.append({"role": "user", "content": text})
        prompt = e.encode(messages)
        warm = answer(e, prompt, params, system)
        assert_alike(warm, answer(e, prompt, params, system, "none"))
        cached.append(warm[0].stats.cached_tokens)
        messages.append({"role": "assistant", "content": warm[0].text})
    assert cached[0] == 0
    assert cached[1] > 0
    assert cached[2] > cached[1]


@pytest.mark.parametrize("launcher", ["host", "loop"])
def test_an_answers_end_is_gone_on_from(launcher):
    e = engine(launcher)
    prompt = e.encode(SAID[1], chat=True)
    first, _ = answer(e, prompt, GREEDY, reuse="near")
    longer = [*prompt, *first.token_ids, *e.encode(" The end")]
    warm, _ = answer(e, longer, GREEDY, reuse="near")
    assert warm.stats.cached_tokens == len(prompt) + len(first.token_ids) - 1
    again, _ = answer(e, longer, GREEDY, reuse="near")
    assert again.token_ids == warm.token_ids
