"""The training form of the drafter: an anchor among many equals a call of its own, and dflash's."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from training.batches import Rows
from training.drafter import Drafter, DraftShape, to_names
from training.export import drafter_config
from training.generate import Decoder, complete, cut_loop, loop_ends, renumber, varied
from training.target import Shape, Target
from training.tokenizer import MASK_ID
from training.train_drafter import arriving, features, save, saved_shape, weights

SMALL = DraftShape(hidden=64, heads=4, kv_heads=2, head_dim=16, mlp=96, windows=(9, 9, 0))
TINY = Shape(hidden=64, heads=4, head_dim=32, gdn=16, experts=8, topk=3, shared=24)


def randomised(shape: DraftShape = SMALL) -> Drafter:
    torch.manual_seed(0)
    model = Drafter(shape)
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


@pytest.mark.parametrize("causal", [True, False])
@torch.no_grad()
def test_equals_dflash(causal: bool) -> None:
    transformers = pytest.importorskip("transformers")
    dflash = pytest.importorskip("dflash.model", reason="the dflash 0.1.0 package is not installed")
    shape = replace(SMALL, causal=causal)
    body = drafter_config(shape, TINY)
    extra = body.pop("dflash_config")
    config = transformers.Qwen3Config(**body)
    config.dflash_config = extra
    other = dflash.DFlashDraftModel(config).eval().float()
    model, embed = randomised(shape), torch.randn(8192, 64)
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


@pytest.mark.parametrize("causal", [True, False])
def test_a_saved_shape_is_read_back(tmp_path: Path, causal: bool) -> None:
    shape = replace(SMALL, causal=causal)
    model = Drafter(shape)
    save(model, TINY, tmp_path)
    assert saved_shape(tmp_path) == shape


def test_features_are_taps(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = Target(TINY)
    ids = torch.randint(0, 8000, (2, 32))
    feats = features(model, ids, (1, 6))
    _, kept, _ = model.body(ids, (1, 6))
    assert torch.equal(feats[..., 64:].flatten(0, 1), kept[1])


def test_prompts_are_varied_inside_the_user_text_only() -> None:
    torch.manual_seed(0)
    pool = torch.randint(20, 8000, (5000,)).to(torch.int16)
    rows = Rows(pool, pool, pool, np.array([5000]), np.zeros(1), np.ones(1, bool), ["math"])
    digits = torch.arange(5, 15)
    ids = torch.randint(20, 8000, (64, 80))
    ids[:, 20:24] = 7
    start = torch.full((64,), 60)
    new = varied(rows, ids, start, digits)
    changed = (new != ids).any(1)
    assert 0.5 < changed.float().mean() < 0.95  # three in four, of 64
    assert torch.equal(new[:, :3], ids[:, :3])
    assert torch.equal(new[:, 49:60], ids[:, 49:60])  # the turn's end and the assistant's head
    assert torch.equal(new[:, 60:], ids[:, 60:])
    assert torch.isin(renumber(ids, start, digits)[:, 20:24], digits[1:]).all()


def test_answers_are_used_as_they_arrive(tmp_path: Path) -> None:
    def write(number: int) -> None:
        np.savez(
            tmp_path / f"answers-{number:04d}.npz", tokens=np.full(96, number, np.int16),
            size=np.array([96]), start=np.array([10]), category=np.zeros(1, np.int64),
            names=np.array(["math"]),
        )  # fmt: skip

    write(1)
    (tmp_path / "answers-0009.part.npz").write_bytes(b"half")
    stream = arriving(tmp_path, "cpu", np.random.default_rng(0), 96)
    assert [int(next(stream)[0][0, 0]) for _ in range(2)] == [1, 1]
    write(2)
    assert int(next(stream)[0][0, 0]) == 2
    ids, starts, ends = next(stream)
    assert (ids.shape, int(starts[0]), int(ends[0])) == ((1, 96), 10, 96)
