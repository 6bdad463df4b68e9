"""The training form of the drafter: an anchor among many equals a call of its own, and dflash's."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from training.drafter import Drafter, DraftShape, to_names
from training.export import drafter_config
from training.generate import Decoder, complete, cut_loop, loop_ends
from training.target import Shape, Target
from training.tokenizer import MASK_ID
from training.train_drafter import features, weights

SMALL = DraftShape(hidden=64, heads=4, kv_heads=2, head_dim=16, mlp=96, windows=(9, 9, 0))
TINY = Shape(hidden=64, heads=4, head_dim=32, gdn=16, experts=8, topk=3, shared=24)


def randomised() -> Drafter:
    torch.manual_seed(0)
    model = Drafter(SMALL)
    for p in model.parameters():
        p.data = 0.12 * torch.randn_like(p) + (1.0 if p.ndim == 1 else 0.0)
    return model


@torch.no_grad()
def test_anchors_do_not_see_each_other() -> None:
    model, embed = randomised(), torch.randn(8192, 64)
    feats = torch.randn(2, 40, 256)
    anchors = torch.tensor([[5, 20, 33], [12, 1, 30]])
    first = torch.randint(0, 8000, (2, 3))
    rows = model.rows(feats, anchors, first, embed)
    for b in range(2):
        for n in range(3):
            a = int(anchors[b, n])
            cut = feats[b : b + 1, :a]
            one = model.rows(cut, anchors[b : b + 1, n : n + 1], first[b : b + 1, n : n + 1], embed)
            assert torch.allclose(one[0, 0], rows[b, n], atol=1e-4)  # fp32 summation order


@torch.no_grad()
def test_equals_dflash() -> None:
    transformers = pytest.importorskip("transformers")
    dflash = pytest.importorskip("dflash.model", reason="the dflash 0.1.0 package is not installed")
    body = drafter_config(SMALL, TINY)
    extra = body.pop("dflash_config")
    config = transformers.Qwen3Config(**body)
    config.dflash_config = extra
    other = dflash.DFlashDraftModel(config).eval().float()
    model, embed = randomised(), torch.randn(8192, 64)
    other.load_state_dict(to_names(model))
    feats, anchor = torch.randn(1, 30, 256), torch.tensor([[77]])
    ours = model.rows(feats, torch.tensor([[30]]), anchor, embed)[0, 0]
    ids = torch.tensor([[77] + [MASK_ID] * 15])
    theirs = other(
        position_ids=torch.arange(46)[None], noise_embedding=embed[ids], target_hidden=feats
    )
    assert (ours - theirs[0, 1:]).abs().max() < 1e-4  # fp32 rounding through three layers


def test_dpace_weights() -> None:
    q = torch.tensor([[0.5, 1.0, 0.0]])
    w = weights(q.log(), torch.tensor([[True, True, False]]))
    assert torch.allclose(w, torch.tensor([[0.75 + 0.75, 0.75, 0.0]]))


@torch.no_grad()
def test_steps_equal_the_whole_sequence() -> None:
    torch.manual_seed(0)
    model = Target(TINY)
    for p in model.parameters():
        p.data += 0.1 * torch.randn_like(p)
    ids = torch.randint(0, 8000, (3, 64))
    whole = model.logits(ids)
    decoder = Decoder(model, 3, 64)
    for t in range(64):
        step = decoder.step(ids[:, t], torch.tensor([t]))
        assert torch.allclose(step, whole[:, t], atol=2e-3)  # fp32, two summation orders


@torch.no_grad()
def test_answers_keep_prompts_and_stop() -> None:
    torch.manual_seed(0)
    model = Target(TINY)
    prompt = torch.tensor([4, 7])
    ids = torch.randint(0, 8000, (2, 24))
    out = complete(model, ids, prompt, 24, torch.zeros(2), limit=6)
    assert torch.equal(out[0, :4], ids[0, :4])
    assert torch.equal(out[1, :7], ids[1, :7])
    assert (out[0, 10:] == -1).all()
    assert (out[1, 13:] == -1).all()
    assert int(out[1, 7]) == int(
        model.logits(torch.nn.functional.pad(ids[1:, :7], (0, 25)))[0, 6].argmax()
    )


def test_loops_are_cut_alike() -> None:
    rows = [[1, 2, 3] * 5, [9, 8, 5, 5, 5, 5, 1, 2, 3, 4, 6, 7, 1, 1, 2], list(range(15))]
    out = torch.tensor([[50, 51, *r] for r in rows])
    ends = loop_ends(out, torch.tensor([2, 2, 2]))
    assert [int(e) - 2 for e in ends] == [cut_loop(r) for r in rows]
    assert cut_loop(rows[0]) == 9


def test_features_are_taps(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = Target(TINY)
    ids = torch.randint(0, 8000, (2, 32))
    feats = features(model, ids, (1, 6))
    _, kept, _ = model.body(ids, (1, 6))
    assert torch.equal(feats[..., 64:].flatten(0, 1), kept[1])
