"""Any GDN verifier gives plain decoding's tokens, and `per-token` the bits of `exact` on a CPU."""

from __future__ import annotations

import pytest
import torch

from committed import assert_committed
from hybridspec.core import SamplingParams
from hybridspec.model.gdn import VERIFY
from hybridspec.runtime.state import TargetState
from scripted import RIGHT, prompt_ids, run, script, scripted_engine

SAMPLING = {
    "greedy": {},
    "seeded": {"temperature": 0.7, "top_p": 0.9, "top_k": 50, "seed": 2},
}
PLANS = {"mixed": (0, 3, RIGHT, 1, 7, 2, RIGHT), "always right": (RIGHT,)}
TOKENS = 70  # two flushes of a ring of 32 or more, whatever is accepted


@pytest.fixture(scope="module")
def engine():
    return scripted_engine(torch.float64)


@pytest.mark.parametrize("w", [1, 4, 16])
@pytest.mark.parametrize("plan", PLANS)
@pytest.mark.parametrize("sampling", SAMPLING)
@pytest.mark.parametrize("verifier", VERIFY)
def test_tokens_and_states_of_plain_decoding(engine, verifier, sampling, plan, w):
    """In float64, where no near tie turns. One engine serves all verifiers in turn."""
    prompt, params = prompt_ids(), SamplingParams(max_tokens=TOKENS, **SAMPLING[sampling])
    expected = script(engine, prompt, PLANS[plan], max_tokens=TOKENS, **SAMPLING[sampling])
    answer, stream = run(engine, prompt, f"static:{w}:{verifier}", params)
    assert answer.token_ids == expected
    assert_committed(engine, stream, [*prompt, *expected[:-1]])


@pytest.mark.parametrize("verifier", ["per-token", "replay"])
def test_the_debug_check_reads_the_whole_state(engine, monkeypatch, verifier):
    """After answers that end at every filling of a ring."""
    monkeypatch.setenv("HYBRIDSPEC_CHECK", "1")
    prompt = prompt_ids()
    script(engine, prompt, (2, 0, RIGHT), max_tokens=60)
    pending = set()
    for tokens in range(2, 40):
        params = SamplingParams(max_tokens=tokens)
        _, stream = run(engine, prompt, f"static:3:{verifier}", params)
        pending.add(stream._sequence.slot.pending)
    assert pending == (set(range(17)) if verifier == "replay" else {0})


@pytest.mark.parametrize("w", [1, 2, 3, 5, 8, 16])
def test_per_token_has_the_bits_of_exact(w):
    """float32 on a CPU: logits of every verification and states after every commit."""
    target, text = scripted_engine().target, torch.tensor(prompt_ids(120, seed=8))
    slots = {form: TargetState(target.config, 140).slot() for form in ("exact", "per-token")}
    for slot in slots.values():
        target.prefill(text[:9], slot)
    for turn in range(6):
        m, seen = 1 + (3 * turn) % w, []
        for form, slot in slots.items():
            ids = text[slot.length : slot.length + w]
            out = target.stage1(target.stage0(ids, slot, form), w, slot, form)
            slot.commit(m, form)
            seen.append((out.logits, slot.gdn.clone()))
        assert all(torch.equal(a, b) for a, b in zip(*seen, strict=True))
