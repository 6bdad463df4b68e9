"""Scripted targets: their text at every depth, the share of their layers, their routing."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from bench.scripted_models import RECIPE, TINY, draws, tiny_cycle, tiny_pair
from hybridspec import Engine, SamplingParams
from hybridspec.bench.scripted.drafter import ScriptedDrafter
from hybridspec.bench.scripted.facts import Facts, observe
from hybridspec.bench.scripted.weights import Recipe, scripted_target
from hybridspec.checkpoint import GenerationConfig
from hybridspec.model.target import Target
from hybridspec.runtime.state import TargetState

CONTEXT = 512


def target(layers: int = 4, recipe: Recipe = RECIPE, seed: int = 0) -> Target:
    config = replace(TINY, layer_types=TINY.layer_types[:layers])
    return scripted_target(config, tiny_cycle(), recipe, draws(seed), torch.float32)


def engine(model: Target, drafter=None) -> Engine:
    return Engine(model, drafter, defaults=GenerationConfig(()), max_context=CONTEXT)


@pytest.mark.parametrize("layers", [1, 2, 3, 4, 8])
def test_greedy_decoding_goes_once_round_the_cycle(layers):
    cycle = tiny_cycle()
    prompt = cycle.run(0, 5).tolist()
    params = SamplingParams(max_tokens=len(cycle) + 3)
    answer = engine(target(layers)).generate(prompt, params, system="ar")
    assert list(answer.token_ids) == cycle.run(5, len(cycle) + 3).tolist()


def test_drafts_are_right_as_often_as_the_trace_says():
    pair = tiny_pair()
    scripted = engine(pair.target, ScriptedDrafter(pair.drafter, pair.script))
    prompt = pair.cycle.run(0, 9).tolist()
    pair.begin(("test", "coding"), len(prompt), 0.25)
    part = pair.parts["test", "coding"]
    params = SamplingParams(max_tokens=200)
    answer = scripted.generate(prompt, params, system="dflash")
    assert list(answer.token_ids) == pair.cycle.run(9, 200).tolist()
    start = part.start(0.25)
    trace = part.trace.trace
    walked = trace.walk(16)
    expected = trace.accepted[walked[walked >= start]].tolist()
    found = [r.accepted for r in answer.stats.rounds[:-1]]  # the last one's drafts are fewer
    assert found == expected[: len(found)]


def test_every_part_has_its_share_of_the_stream():
    model, cycle = target(8), tiny_cycle()
    ids = cycle.run(40, 64)
    slot = TargetState(model.config, 64).slot()
    start = x = model.embedding[ids]
    parts = []
    for layer in model.layers:
        mixed = layer.mix(x, step(model, slot))
        after = layer.experts(layer.route(mixed))
        parts += [float((b - a).norm() / start.norm()) for a, b in ((x, mixed), (mixed, after))]
        x = after
    assert float((x - start).norm() / start.norm()) == pytest.approx(RECIPE.ratio, rel=0.15)
    each = RECIPE.ratio / len(parts) ** 0.5
    assert all(each / 2 < part < 2 * each for part in parts)  # measured on other tokens


def step(model: Target, slot):
    from hybridspec.model.target import Step

    return Step(slot, model.rope, None)


def test_shared_factors_and_skew_leave_fewer_distinct_experts():
    cycle = tiny_cycle()
    blocks = cycle.run(0, 16 * 12).view(-1, 16)
    looked = [
        observe(target(recipe=r), blocks, cycle.successors())
        for r in (RECIPE, Recipe(shared=0.0, skew=0.0))
    ]
    skewed, uniform = map(Facts.of, looked)
    assert all(routing.right for routing in looked)
    assert skewed.distinct[1] == uniform.distinct[1] == TINY.num_experts_per_tok
    assert skewed.distinct[16] < 0.85 * uniform.distinct[16]
    assert 0 < skewed.least_margin < skewed.margin < uniform.margin < 1
    assert "outside" in uniform.line()


def test_a_target_that_does_not_follow_is_seen():
    model, cycle = target(), tiny_cycle()
    model.head[int(cycle.order[9])] = 0
    blocks = cycle.run(0, 32).view(-1, 16)
    assert not observe(model, blocks, cycle.successors()).right


def test_the_seed_decides():
    one, same, other = (target(seed=s).slots() for s in (1, 1, 2))
    assert all(torch.equal(one[name], same[name]) for name in one)
    name = "layers.0.mlp.gate.weight"
    assert not torch.equal(one[name], other[name])


def test_one_table_for_embedding_and_head_is_refused():
    config = replace(TINY, tie_word_embeddings=True)
    with pytest.raises(ValueError, match="tie_word_embeddings"):
        scripted_target(config, tiny_cycle(), RECIPE, draws(), torch.float32)
