"""The training form of the target computes what transformers' Qwen3_5MoeForCausalLM computes."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from training.target import CHUNK, Shape, Target, UnitLowerInverse, scan

from training import export

SMALL = Shape(vocab=128, hidden=64, heads=4, head_dim=32, gdn=16, experts=8, topk=3, shared=24)


def randomised(seed: int) -> Target:
    """A target whose every parameter matters."""
    torch.manual_seed(seed)
    model = Target(SMALL)
    for name, p in model.named_parameters():
        if name.endswith(("norm", "norm1", "norm2", "qn", "kn")):
            p.data += 0.3 * torch.randn_like(p)
        elif p.ndim >= 2 and "dt" not in name and "a_log" not in name:
            p.data = 0.12 * torch.randn_like(p)
    return model


@pytest.mark.parametrize("length", [CHUNK, 3 * CHUNK])
def test_logits_equal_transformers(tmp_path: Path, length: int) -> None:
    transformers = pytest.importorskip("transformers")
    model = randomised(length)
    config = transformers.Qwen3_5MoeTextConfig(**export.target_config(SMALL)["text_config"])
    config.dtype = torch.float32
    other = transformers.Qwen3_5MoeForCausalLM(config).eval().float()
    names = {k.replace(export.PREFIX, "model."): v for k, v in export.to_names(model).items()}
    missing, unexpected = other.load_state_dict(names, strict=False)
    assert (missing, unexpected) in ((["lm_head.weight"], []), ([], []))
    other.tie_weights()
    ids = torch.randint(0, SMALL.vocab, (3, length))
    with torch.no_grad():
        ours, theirs = model.logits(ids), other(ids).logits
    # fp32 rounding through 8 layers, in two orders of summation
    assert (ours - theirs).abs().max() < 1e-3 * theirs.abs().max()


@torch.enable_grad()
def test_inverse_survives_repeated_keys() -> None:
    a = torch.ones(2, CHUNK, CHUNK, dtype=torch.float64).tril(-1).requires_grad_()
    inv = UnitLowerInverse.apply(a)
    eye = torch.eye(CHUNK, dtype=torch.float64)
    assert ((eye + a) @ inv - eye).abs().max() < 1e-9
    weight = torch.randn_like(inv).tril()
    (own,) = torch.autograd.grad((inv * weight).sum(), a)
    (auto,) = torch.autograd.grad((torch.linalg.inv(eye + a) * weight).sum(), a)
    assert torch.allclose(own, auto.tril(-1), atol=1e-8)


def test_scan_is_the_recurrence() -> None:
    rows, chunks = 3, 4
    m, n = torch.randn(rows * chunks, 2, 5, 5), torch.randn(rows * chunks, 2, 6, 5)
    out = scan(m, n, rows).unflatten(0, (rows, chunks))
    state = torch.zeros(rows, 2, 6, 5)
    for i in range(chunks):
        assert torch.allclose(out[:, i], state, atol=1e-4)
        state = state @ m.unflatten(0, (rows, chunks))[:, i] + n.unflatten(0, (rows, chunks))[:, i]


def test_saved_weights_come_back(tmp_path: Path) -> None:
    model = randomised(1)
    export.save_target(model, tmp_path)
    fresh = Target(SMALL)
    export.load_target(fresh, tmp_path)
    for a, b in zip(model.parameters(), fresh.parameters(), strict=True):
        assert torch.equal(a.bfloat16().float(), b)
