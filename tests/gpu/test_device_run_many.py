"""The promises of `test_device_run.py` on fifty prompts, and the paper's E.4 on long answers.

Some minutes on a GPU: pytest -m "gpu and full" tests/gpu
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
from device_runs import (
    EXACT,
    GREEDY,
    OTHERS,
    SEEDED,
    TEXTS,
    Cut,
    assert_alike,
    engine,
    everything,
    fresh,
    on_device,
    said,
    target_state,
)

from hybridspec import assets
from hybridspec.policy.profile import load_profile
from hybridspec.runtime.launching import ON_DEVICE

pytestmark = [pytest.mark.gpu, pytest.mark.full]
MANY = [text[: len(text) // part] for part in (1, 2, 3) for text in TEXTS][:50]
LONG = 1024


@pytest.mark.parametrize("params", [GREEDY, SEEDED], ids=["greedy", "seeded"])
@pytest.mark.parametrize("system", EXACT + OTHERS)
def test_launchers_say_and_leave_the_same_on_fifty_prompts(system, params):
    assert len(set(MANY)) == 50
    for prompt in MANY:
        plain = said(engine("loop"), prompt, params, "ar")
        state = target_state(plain)
        streams = [on_device(said(engine(n), prompt, params, system)) for n in ON_DEVICE[:1]]
        first, left = streams[0].result(), everything(streams[0])
        for launcher in ON_DEVICE[1:]:
            stream = on_device(said(engine(launcher), prompt, params, system))
            assert stream.result().token_ids == first.token_ids, (launcher, prompt)
            assert stream.result().stats.rounds == first.stats.rounds, (launcher, prompt)
            assert_alike(everything(stream), left, f"{launcher}, {prompt}")
        if not system.endswith(":block"):
            assert first.token_ids == plain.result().token_ids, prompt
        if system in EXACT:
            assert_alike(left, state, f"{system} against ar, {prompt}")


@pytest.mark.parametrize("system", ["static:5", "nominal-only"])
def test_split_and_unsplit_are_the_same_on_long_answers(system):
    """16 prompts x 1,024 tokens, ends ignored: tokens, lengths, rounds, and what was run before the
    decision and after it."""
    cut, whole = (fresh("loop", max_context=2 * LONG) for _ in range(2))
    for e in (cut, whole):
        e.profile = load_profile(assets.PROFILE)
    cut._launching.runs.form = Cut
    params = replace(GREEDY, max_tokens=LONG)
    for prompt in MANY[:16]:
        ours, theirs = (said(e, prompt, params, system) for e in (cut, whole))
        assert ours._rounds._runs.of(ours._rounds.system, ours._sequence).round.plan.split
        mine, other = ours.result(), theirs.result()
        assert len(mine.token_ids) == LONG
        assert mine.token_ids == other.token_ids
        assert Counter(r.w for r in mine.stats.rounds) == Counter(r.w for r in other.stats.rounds)
        assert mine.stats.rounds == other.stats.rounds
