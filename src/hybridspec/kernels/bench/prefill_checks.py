"""The kernels of a prefill against float64, at the sizes and in the dtype that are timed."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from hybridspec.kernels.bench.checks import STATES, compare, same
from hybridspec.kernels.bench.setting import Setting
from hybridspec.kernels.gdn import chunked, naive
from hybridspec.kernels.moe import grouped

SMALL = 96  # tokens that the interpreter takes


def check_prefill(s: Setting) -> None:
    """GDN in chunks, and experts by both products, against float64."""
    h, n = s.shape, 1000 if s.device.type == "cuda" else SMALL
    wide = torch.float32
    for keys in ("", ", one key"):
        q, k = (F.normalize(s.normal(n, h.key_heads, h.dk, dtype=wide), dim=-1) for _ in range(2))
        k = k[:1].expand_as(k).contiguous() if keys else k
        beta, g = (s.normal(n, h.value_heads, dtype=wide).sigmoid() for _ in range(2))
        g = -g / 100 if keys else g.log()
        v = s.normal(n, h.value_heads, h.dv)
        start = s.normal(h.value_heads, h.dv, h.dk, dtype=wide, size=h.dk**-0.5)
        state = start.clone()
        given = (q * h.dk**-0.5, k, v, beta, g)
        o = chunked.prefill(*given, state)
        exact, last = naive.prefill(*(t.double() for t in given), start.double())
        compare(s, f"gdn chunks: o{keys}", o, exact)
        compare(s, f"gdn chunks: state{keys}", state, last, STATES)
    _check_experts(s, min(n, 300))


def _check_experts(s: Setting, n: int) -> None:
    h = s.shape
    gate_up, down = (
        s.weight(h.experts, 2 * h.width, h.hidden),
        s.weight(h.experts, h.hidden, h.width),
    )
    u, base = s.normal(n, h.hidden), s.normal(n, h.hidden)
    best, ids = s.normal(n, h.experts, dtype=torch.float32).topk(h.top, -1)
    shares = best.softmax(-1)
    exact = base.double()
    for e in range(h.experts):
        token, slot = (ids == e).nonzero(as_tuple=True)
        gate, up = F.linear(u[token].double(), gate_up[e].double()).chunk(2, -1)
        made = F.linear(F.silu(gate) * up, down[e].double()) * shares[token, slot, None]
        exact.index_add_(0, token, made)
    for library in {False, grouped.uses_library(gate_up)}:
        name = "experts of a prompt, " + ("torch" if library else "Triton")
        runs = [
            grouped.combine(u, ids, shares, gate_up, down, base, library=library) for _ in range(2)
        ]
        compare(s, name, runs[0], exact)
        same(s, f"{name}, twice", *runs)
