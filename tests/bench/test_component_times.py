from __future__ import annotations

import pytest
import torch

from hybridspec.bench.component_fits import COMPONENTS
from hybridspec.bench.component_times import WARMUP, Walk
from hybridspec.core import SamplingParams
from hybridspec.model.gdn import VERIFY
from scripted import TINY, scripted_engine

PROMPTS = [[3, 1, 4, 1, 5], [9, 2, 6]]
LENGTHS = (1, 2, 5, 16)
TOKENS = 20  # past the ring of `replay`, 32 rows of which 16 stay free


@pytest.fixture(scope="module")
def engine():
    return scripted_engine()


def recorded(walk):
    """The tokens a walk emits after each anchor."""
    tokens = []
    position = walk._position

    def kept(*arguments):
        tokens.append(position(*arguments))
        return tokens[-1]

    walk._position = kept
    return tokens


@pytest.mark.parametrize("verifier", VERIFY)
def test_a_walk_says_what_plain_decoding_says(engine, verifier):
    walk = Walk(engine.target, engine.drafter, (1, 5), verifier, 40)
    tokens = recorded(walk)
    walk.run(PROMPTS, (), TOKENS, lambda _: None)
    wanted = []
    for ids in PROMPTS:
        params = SamplingParams(max_tokens=TOKENS, ignore_eos=True)
        wanted += engine.generate(ids, params, system="ar").token_ids[1:]
    assert tokens[WARMUP:] == wanted


def test_every_length_is_timed_at_every_position(engine):
    walk = Walk(engine.target, engine.drafter, LENGTHS, "exact", 40)
    steps: list[str] = []
    samples = walk.run(PROMPTS, (), TOKENS, steps.append)
    assert steps == ["warm-up", "answer 1", "answer 2"]
    positions = 2 * (TOKENS - 1)
    for w in LENGTHS:
        assert len(samples.components[w]) == len(samples.whole[w]) == positions
        assert len(samples.drafter[w]) == (positions if w > 1 else 0)
        assert len(samples.pairs[w]) == positions
        for spent in samples.components[w]:
            assert tuple(spent) == COMPONENTS
            assert min(spent.values()) > 0  # the target has layers of every kind
    assert min(samples.whole[1]) > 0
    assert [new.shape for new in samples.new] == [(TINY.num_hidden_layers, 16)] * positions
    for new, *pairs in zip(samples.new, *(samples.pairs[w] for w in LENGTHS), strict=True):
        assert pairs == [new[:, :w].sum() for w in LENGTHS]


def test_pairs_are_those_that_the_inputs_choose(engine):
    walk = Walk(engine.target, engine.drafter, (1, 3), "exact", 40)
    samples = walk.run(PROMPTS[:1], (), 3, lambda _: None)
    k, experts, layers = TINY.num_experts_per_tok, TINY.num_experts, TINY.num_hidden_layers
    assert samples.pairs[1] == [k * layers] * 2
    assert all(k * layers <= n <= experts * layers for n in samples.pairs[3])

    ids = [*PROMPTS[0], *engine.generate(PROMPTS[0], SamplingParams(max_tokens=1)).token_ids]
    slot = engine._state.slot(tap_layers=engine.drafter.config.target_layer_ids)
    drafter_slot = engine._drafter_state.slot()
    out = engine.target.prefill(torch.tensor(ids[:-1]), slot)
    engine.drafter.extend(out.features, drafter_slot)
    drafts = engine.drafter.propose(engine.target, ids[-1], drafter_slot, 2).tokens
    slot.routes = []
    engine.target.prefill(torch.tensor([ids[-1], *drafts.tolist()]), slot)
    assert samples.pairs[3][0] == sum(len(set(r.flatten().tolist())) for r in slot.routes)


def test_an_answer_ends_at_a_stop_token(engine):
    params = SamplingParams(max_tokens=TOKENS, ignore_eos=True)
    tokens = engine.generate(PROMPTS[0], params, system="ar").token_ids
    at = next(i for i in range(2, TOKENS) if tokens.index(tokens[i]) == i)
    walk = Walk(engine.target, engine.drafter, (2,), "exact", 40)
    samples = walk.run(PROMPTS[:1], (tokens[at],), TOKENS, lambda _: None)
    assert len(samples.whole[2]) == at


def test_plain_decoding_alone_needs_no_draft(engine):
    samples = Walk(engine.target, engine.drafter, (1,), "exact", 40).run(
        PROMPTS[:1], (), 4, lambda _: None
    )
    assert len(samples.components[1]) == 3
    assert not samples.drafter
