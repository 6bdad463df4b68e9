"""Proposals by kernels on CUDA: the embedded pair's in float32 against torch's, and a drafter of
the 35B's sizes in bf16 through the streaming kernels against float64.

Run by `make test-gpu`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import pytest
import torch
from torch import Tensor

from builders import target_config
from hybridspec import Engine, SamplingParams, assets
from hybridspec.checkpoint import load_drafter, load_target
from hybridspec.model.config import DrafterConfig
from hybridspec.model.drafter import Drafter
from hybridspec.model.target import Target
from hybridspec.runtime.launched_drafter import FEW, LaunchedDrafter
from hybridspec.runtime.state import DrafterSlot, DrafterState

pytestmark = pytest.mark.gpu
CUDA, CONTEXT = torch.device("cuda"), 2048
TOLERANCE = 1e-4  # fp32: some hundred sums a layer in another order
NEAR = 1e-3  # logits that nearly tie may change places
TIMES = 1.5  # bf16: the distance from float64's, by that of plain torch in bf16
BIG = DrafterConfig(
    vocab_size=1000, hidden_size=2048, intermediate_size=6144,
    layer_types=("sliding_attention", "sliding_attention", "full_attention"),
    num_attention_heads=32, num_key_value_heads=8, head_dim=128, block_size=16, mask_token_id=999,
    target_layer_ids=(0, 1), num_target_layers=2, sliding_window=100,
)  # fmt: skip


class Side(NamedTuple):
    """A drafter with its target and its memory."""

    target: Target
    drafter: Drafter
    slot: DrafterSlot


def side(target: Target, drafter: Drafter) -> Side:
    drafter.set_context(CONTEXT)
    state = DrafterState(drafter.config, CONTEXT, device=CUDA, dtype=drafter.dtype)
    return Side(target, drafter, state.slot())


def distance(ours: Tensor, exact: Tensor) -> float:
    return float((ours.double() - exact.double()).norm() / exact.double().norm())


@pytest.fixture(scope="module")
def pair() -> tuple[Side, Side]:
    """The embedded pair in float32: kernels, and plain torch."""
    target = load_target(assets.TARGET, CUDA, torch.float32)
    drafter = load_drafter(assets.DRAFTER, target.config, CUDA, torch.float32)
    return side(target, LaunchedDrafter(drafter, target)), side(target, drafter)


def test_rounds_of_the_embedded_pair(pair):
    """A prompt, then rounds, through the ring's end at 1,040; causal, so a block may be short."""
    ours, theirs = pair
    g = torch.Generator(CUDA).manual_seed(0)
    width, vocabulary = ours.drafter.fc.shape[1], ours.target.config.vocab_size
    for turn, m in enumerate((1000, 5, 16, 1, FEW, 9, 70, 2)):
        features = torch.randn(m, width, device=CUDA, generator=g)
        anchor, drafts = 97 * turn % vocabulary, (15, 1, 7)[turn % 3]
        found = []
        for target, drafter, slot in (ours, theirs):
            drafter.extend(features, slot)
            found.append(drafter.propose(target, anchor, slot, drafts, scored=True))
        _check_tokens(theirs, anchor, drafts, found[0].tokens, found[1].tokens)
        assert distance(found[0].confidence, found[1].confidence) < TOLERANCE
        assert distance(found[0].entropy, found[1].entropy) < TOLERANCE
        unscored = ours.drafter.propose(ours.target, anchor, ours.slot, drafts)
        assert torch.equal(unscored.tokens, found[0].tokens)
        assert unscored.confidence is None
    assert ours.slot.length == theirs.slot.length > 1040
    end = ours.slot.length
    assert distance(ours.slot.full[..., :end, :], theirs.slot.full[..., :end, :]) < TOLERANCE
    kept = torch.arange(end - 1024, end, device=CUDA) % 1040
    assert distance(ours.slot.ring[..., kept, :], theirs.slot.ring[..., kept, :]) < TOLERANCE


def _check_tokens(law: Side, anchor: int, drafts: int, ours: Tensor, theirs: Tensor) -> None:
    rows = law.drafter._block(law.target, anchor, law.slot, 1 + drafts)[1:]
    logits = law.target.logits(law.drafter.final_norm(rows))
    lost = logits.amax(-1) - logits.gather(1, ours[:, None])[:, 0]
    assert float(lost.max()) < NEAR, (ours.tolist(), theirs.tolist())


def test_an_engine_drafts_with_them():
    """Acceptance is torch's but for near ties: the same features, and the same target's words."""
    prompt = "Write a Python function that returns the largest number in a list."
    lengths = []
    for kernels in (True, False):
        engine = Engine.load(
            assets.TARGET, assets.DRAFTER, device="cuda", dtype="float32", max_context=1024,
            kernels=kernels,
        )  # fmt: skip
        assert isinstance(engine.drafter, LaunchedDrafter) == kernels
        params = SamplingParams(max_tokens=96, ignore_eos=True)
        answer = engine.generate(prompt, params, system="static:8", chat=True)
        lengths.append(answer.stats.mean_acceptance_length)
    assert lengths[0] == pytest.approx(lengths[1], rel=0.1)
    assert lengths[0] > 1.5


@pytest.fixture(scope="module", params=["current", "causal"])
def big(request) -> tuple[Side, Side, Side]:
    """Kernels in bf16, the same numbers in float64, and in bf16 by plain torch."""
    config = replace(BIG, is_causal=True if request.param == "causal" else None)
    g, shape = torch.Generator(CUDA).manual_seed(0), target_config(
        hidden_size=2048, vocab_size=1000, layer_types=("linear_attention",) * 2
    )  # fmt: skip
    half, exact = (Target(shape, CUDA, dtype) for dtype in (torch.bfloat16, torch.float64))
    small, wide = (Drafter(config, CUDA, dtype) for dtype in (torch.bfloat16, torch.float64))
    for ours, theirs in ((half, exact), (small, wide)):
        for name, slot in ours.slots().items():
            matrix = slot.ndim >= 2
            centre = 0.0 if matrix or ours is half else 1.0
            slot.normal_(centre, slot.shape[-1] ** -0.5 if matrix else 0.1, generator=g)
            theirs.slots()[name].copy_(slot)
        ours.prepare()
        theirs.prepare()
    plain = side(half, small)
    return side(half, LaunchedDrafter(small, half)), side(exact, wide), plain


def test_a_block_is_the_law_s(big):
    """Contexts below the window of 100, through the ring's end, and far behind it."""
    g = torch.Generator(CUDA).manual_seed(1)
    for m in (90, 7, 16, 300, 1):
        features = torch.randn(m, BIG.hidden_size * 2, device=CUDA, generator=g).bfloat16()
        for _, drafter, slot in big:
            drafter.extend(features.to(drafter.dtype), slot)
        ours = big[0]
        proposal = ours.drafter.propose(ours.target, 5, ours.slot, 15, scored=True)
        assert proposal.tokens.max() < BIG.vocab_size
        stream = ours.drafter.final_norm(ours.drafter._of(ours.slot).buffers.x)
        law, torch_s = (s.drafter.final_norm(_block(s)) for s in big[1:])
        assert distance(stream, law) < TIMES * distance(torch_s, law), m
        logp = ours.target.logits(stream)[1:].float().log_softmax(-1)
        entropy = -(logp.exp() * logp).sum(-1)
        assert distance(proposal.entropy, entropy) < 0.01  # logits rounded to bf16 there
    for name in ("full", "ring"):
        ours, law, torch_s = (getattr(s.slot, name) for s in big)
        assert distance(ours, law) < TIMES * distance(torch_s, law)


def _block(law: Side) -> Tensor:
    return law.drafter._block(law.target, 5, law.slot, 16)


def test_bits_do_not_depend_on_the_division(big):
    ours = big[0]
    one, other = (side(ours.target, ours.drafter).slot for _ in range(2))
    g = torch.Generator(CUDA).manual_seed(2)
    features = torch.randn(64, BIG.hidden_size * 2, device=CUDA, generator=g).bfloat16()
    ours.drafter.extend(features, one)
    for part in features.split((1, 9, 16, 5, 12, 21)):
        ours.drafter.extend(part, other)
    assert torch.equal(one.full, other.full)
    assert torch.equal(one.ring, other.ring)
    if ours.drafter.causal:
        whole = ours.drafter.propose(ours.target, 7, one, 15, scored=True)
        for drafts in (1, 6):
            part = ours.drafter.propose(ours.target, 7, other, drafts, scored=True)
            assert torch.equal(part.tokens, whole.tokens[:drafts])
            assert torch.equal(part.entropy, whole.entropy[:drafts])
