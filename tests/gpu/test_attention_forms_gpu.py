"""Every form of a layer's attention in bf16 at the models' sizes, launched early as in a pass."""

from __future__ import annotations

from typing import NamedTuple

import pytest
import torch

from hybridspec.kernels.attention.config import PAST, AttentionConfig, Sight
from hybridspec.kernels.attention.forms import Form, attention
from hybridspec.kernels.attention.prepare import Norms, Tables
from hybridspec.kernels.early import has_early
from hybridspec.kernels.last import Workspace
from hybridspec.model.layers import Rope

pytestmark = pytest.mark.gpu
ROWS, LAYERS = 17000, 4
WIDE = AttentionConfig(16, 64, warps=8)
CUDA = torch.device("cuda")
TOLERANCE = 4e-3  # weights and results are rounded to bf16, 1.1e-3 (rms) each time


class Layers(NamedTuple):
    """heads, D and whether gated; projections [LAYERS, 16, R] and a cache [LAYERS, KV, ROWS, D]
    each, and what they share."""

    heads: int
    size: int
    gated: bool
    qkv: torch.Tensor
    norms: Norms
    rope: Tables
    keys: torch.Tensor
    values: torch.Tensor


SIZES = {
    "35b": (16, 2, 256, 64, True, PAST),
    "122b": (32, 2, 256, 64, True, PAST),
    "drafter": (32, 8, 128, 128, False, Sight(causal=False)),
}


def layers(heads: int, kv: int, size: int, rotated: int, gated: bool) -> Layers:
    g = torch.Generator("cuda").manual_seed(heads)

    def normal(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, device="cuda", generator=g)

    wide = (heads * (2 if gated else 1) + 2 * kv) * size
    rope = Rope(1e7, rotated, ROWS, torch.device("cuda"), torch.float32)
    return Layers(
        heads, size, gated, normal(LAYERS, 16, wide).bfloat16(),
        Norms(1 + 0.1 * normal(size), 1 + 0.1 * normal(size), 1e-6), Tables(rope.cos, rope.sin),
        *(normal(LAYERS, kv, ROWS, size).bfloat16() for _ in range(2)),
    )  # fmt: skip


def run(
    layers: Layers, position: int, start: int, w: int, form: Form, sight: Sight,
    config: AttentionConfig | None = None, *, early: bool,
) -> torch.Tensor:  # fmt: skip
    """Tokens start to start + w at P + start through all layers, each after a kernel that writes
    its projections: [LAYERS, w, H D]. One recording, played twice."""
    kv, rows = layers.keys.shape[1:3]
    at = [torch.tensor(n, dtype=torch.int32, device="cuda") for n in (position + start, w)]
    out = torch.full((LAYERS, 16, layers.heads * layers.size), torch.nan, device="cuda").bfloat16()
    q = torch.empty(16, layers.heads, layers.size, device="cuda").bfloat16()
    given = torch.full_like(layers.qkv, torch.nan)
    given[:, :w] = layers.qkv[:, start : start + w]
    joint = torch.empty_like(given[0])
    space = Workspace.empty("cuda", *form.room(layers.heads, kv, layers.size, rows, CUDA, config))
    space.parts.fill_(torch.nan)

    def launch() -> None:
        for i in range(LAYERS):
            joint.copy_(given[i])
            attention(joint, layers.norms, layers.rope, layers.keys[i], layers.values[i], *at, q,
                      out[i], space, config, gated=layers.gated, sight=sight, form=form,
                      early=early)  # fmt: skip

    launch()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        launch()
    out.fill_(torch.nan)
    for _ in range(2):
        graph.replay()
    torch.cuda.synchronize()
    assert not out[:, w:].any()
    return out[:, :w]


def early() -> list[bool]:
    return [False, True] if has_early(torch.device("cuda")) else [False]


def served(size: str, form: Form) -> None:
    """Skip where a form does not serve a model."""
    heads, kv, wide, *_ = SIZES[size]
    best = Form.of_target(heads, kv, wide, torch.bfloat16, CUDA)
    if form is Form.WARPGROUPS and best is not form:
        pytest.skip("not by warpgroups")


# 4,216 and others: rows of one round whose caches are cut in two ways, on 132 multiprocessors
@pytest.mark.parametrize("position", [0, 40, 500, 4088, 4216, 8400, 8440, 16880])
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("form", [Form.APART, Form.WARPGROUPS])
def test_all_forms_agree(form, size, position):
    served(size, form)
    *sizes, sight = SIZES[size]
    made = layers(*sizes)
    for w in (1, 6, 16):
        expected = run(made, position, 0, w, Form.JOINED, sight, early=False).double()
        found = [run(made, position, 0, w, form, sight, early=e) for e in early()]
        assert (found[0].double() - expected).norm() < TOLERANCE * expected.norm()
        assert all(torch.equal(found[0], other) for other in found[1:])


@pytest.mark.parametrize("position", [0, 40, 500, 4088, 4213, 8400, 8445, 16887])
@pytest.mark.parametrize(
    ("form", "config", "size"),
    [(form, config, "35b") for form in (Form.JOINED, Form.APART) for config in (None, WIDE)]
    + [(Form.WARPGROUPS, None, size) for size in ("35b", "122b")],
    ids=str,
)
def test_bits_do_not_depend_on_how_tokens_come_in_rounds(form, config, size, position):
    served(size, form)
    *sizes, sight = SIZES[size]
    made = layers(*sizes)
    for e in early():
        whole = run(made, position, 0, 16, form, sight, config, early=e)
        keys = made.keys[:, :, position : position + 16].clone()
        made.keys[:, :, position : position + 16] = torch.nan
        rounds = ((0, 1), (1, 1), (2, 5), (7, 9))
        parts = [run(made, position, i, w, form, sight, config, early=e) for i, w in rounds]
        assert torch.equal(torch.cat(parts, 1), whole)
        assert torch.equal(made.keys[:, :, position : position + 16], keys)


def test_by_warpgroups_what_is_beyond_a_row_or_not_finite_harms_nobody_else():
    """Rows of the cache behind the round, and a later row's key and value."""
    served("35b", Form.WARPGROUPS)
    *sizes, sight = SIZES["35b"]
    made = layers(*sizes)
    for position in (3, 60, 700, 8440):
        whole = run(made, position, 0, 16, Form.WARPGROUPS, sight, early=True)
        made.keys[:, :, position + 16 :] = torch.nan
        made.values[:, :, position + 16 :] = torch.nan
        assert torch.equal(run(made, position, 0, 16, Form.WARPGROUPS, sight, early=True), whole)
        kept = made.qkv[:, 9].clone()
        made.qkv[:, 9] = torch.inf
        harmed = run(made, position, 0, 16, Form.WARPGROUPS, sight, early=True)
        made.qkv[:, 9] = kept
        assert torch.equal(harmed[:, :9], whole[:, :9])
        assert harmed[:, 9:].isnan().all()
        made = layers(*sizes)
