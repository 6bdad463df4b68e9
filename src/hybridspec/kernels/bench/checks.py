"""Every kernel against its law in float64, at the sizes and in the dtype that are timed.

Tolerances are the paper's own in bf16 (D.2: outputs 4.3e-3, states 1.7e-3): a rounding to bf16 has
a relative error of 1.1e-3 (rms), and at most a few of them follow each other.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from hybridspec.kernels.bench.gdn import Layers, commit_of, forms, layers
from hybridspec.kernels.bench.moe import weights
from hybridspec.kernels.bench.setting import EPS, Setting
from hybridspec.kernels.gdn import naive as gdn_law
from hybridspec.kernels.last import Workspace
from hybridspec.kernels.linear import naive as law
from hybridspec.kernels.linear.norm import Next, Normed, prepare
from hybridspec.kernels.linear.product import gated_product, norm_product
from hybridspec.kernels.moe import experts
from hybridspec.kernels.moe.naive import Weights
from hybridspec.kernels.moe.route import Routed, route
from hybridspec.model.gdn import GDNMixer

OUTPUTS, STATES = 4.3e-3, 1.7e-3
LENGTHS = (1, 5, 16)


def compare(s: Setting, name: str, ours: Tensor, exact: Tensor, most: float = OUTPUTS) -> None:
    """Keep the relative Frobenius distance of a result from the law's."""
    error = float((ours.double() - exact).norm() / exact.norm())
    s.keep({"name": f"check {name}", "error": error, "most": most, "ok": error < most})


def same(s: Setting, name: str, ours: Tensor, theirs: Tensor) -> None:
    """Keep whether two results have the same bits."""
    s.keep({"name": f"check {name}", "ok": bool(torch.equal(ours, theirs))})


def stream(s: Setting) -> tuple[Tensor, Tensor, Next]:
    """A residual stream, what its norm makes of it in float64, and it as left for the norm."""
    n = s.shape.hidden
    factor = 1 + s.normal(n, dtype=torch.float32, size=0.1)
    x, after = s.normal(16, n), Next(factor, Normed.empty(n, s.dtype, s.device))
    prepare(x, after)
    return x, law.norm(x.double(), factor.double(), EPS), after


def check_products(s: Setting) -> None:
    """Joint projection after its norm; gated output projection, residual and the norm after it."""
    h, space = s.shape, Workspace.empty(s.device)
    _, normed, after = stream(s)
    w, y = s.weight(h.joint, h.hidden), s.empty(16, h.joint)
    norm_product(after.normed, EPS, w, y)
    compare(s, "joint", y, F.linear(normed, w.double()))

    o, gate = (s.normal(16, h.value_heads, h.dv, dtype=torch.float32) for _ in range(2))
    factor, w = (
        1 + s.normal(h.dv, dtype=torch.float32, size=0.1),
        s.weight(h.hidden, h.value_heads * h.dv),
    )
    squares = o.square().sum(-1, keepdim=True)
    gated = (o * factor * F.silu(gate)).to(s.dtype).flatten(1)
    x, y = s.normal(16, h.hidden), s.empty(16, h.hidden)
    gated_product(gated, squares, EPS, w, y, x, after, space)
    exact = law.gated_product(
        o.double(), gate.double(), factor.double(), EPS, w.double(), x.double()
    )
    compare(s, "gated out", y, exact)
    head, logits = s.weight(64, h.hidden), s.empty(16, 64)
    norm_product(after.normed, EPS, head, logits, space)
    again = law.norm_product(y.double(), after.factor.double(), EPS, head.double())
    compare(s, "norm after it", logits, again)
    z = s.empty(16, h.hidden)
    gated_product(gated, squares, EPS, w, z, x, after, space)
    same(s, "gated out twice", y, z)


def check_experts(s: Setting) -> None:
    """The block at every length, with the kernel's own choice of experts; and the choice."""
    h, w, space = s.shape, weights(s), Workspace.empty(s.device)
    x, normed, after = stream(s)
    routed = Routed.empty(h.experts, h.top, s.device)
    inner, shared = s.empty(routed.places, 16, h.width), s.empty(16, h.shared)
    results = []
    for length in LENGTHS:
        y, count = s.empty(16, h.hidden), s.scalar(length)
        follows = Next(after.factor, Normed.empty(h.hidden, s.dtype, s.device))
        route(after.normed, EPS, w.router, count, routed, space)
        experts.up(after.normed, EPS, w, routed, inner, shared)
        experts.down(inner, shared, w, routed, x, y, space, follows)
        logits = F.linear(normed, w.router.double())
        compare(s, f"router, w = {length}", routed.logits, logits)
        ids = routed.logits[:length, :-1].sort(dim=-1, descending=True, stable=True)[1][:, : h.top]
        same(s, f"top-k, w = {length}", routed.ids[:length].long(), ids)
        distinct = ids.unique()
        same(s, f"list, w = {length}", routed.distinct[: int(routed.count)].long(), distinct)
        exact = x[:length].double() + law_experts(normed, w, logits, ids)
        compare(s, f"experts, w = {length}", y[:length], exact)
        results.append(y)
    same(s, "a token among others", results[0][0], results[-1][0])


def law_experts(u: Tensor, w: Weights, logits: Tensor, ids: Tensor) -> Tensor:
    """What the experts `ids` [T, k] and the shared one add, in float64."""

    def one(u: Tensor, gate_up: Tensor, down: Tensor) -> Tensor:
        gate, up = F.linear(u, gate_up.double()).chunk(2, -1)
        return F.linear(F.silu(gate) * up, down.double())

    shares = logits[: len(ids)].gather(1, ids).softmax(-1)
    u, opening = u[: len(ids)], logits[: len(ids), -1:].sigmoid()
    y = one(u, w.shared_gate_up, w.shared_down) * opening
    for t, i in [(t, i) for t in range(len(ids)) for i in range(ids.shape[1])]:
        e = int(ids[t, i])
        y[t] += shares[t, i] * one(u[t], w.gate_up[e], w.down[e])
    return y


def check_gdn(s: Setting) -> None:
    """Every verification; a commit of its factors."""
    for name, verify in forms(s).items():
        a = layers(s, 2)
        a.state.mul_(s.shape.dk**-0.5)
        a.alpha[1] = a.tokens[4].exp()
        start = a.state.clone()
        verify(a, 1, s.scalar(16))
        if name.startswith("fused"):
            _check_fused(s, name, a)
        else:
            _check_plain(s, name, a)
        if name.startswith("block"):
            continue
        z = a.z[1].clone()
        verify(a, 1, s.scalar(5))
        same(s, f"{name}: bits at w = 5", z[:5], a.z[1, :5])
        for m in (5, 16):
            a.state.copy_(start)
            verify(a, 1, s.scalar(16))
            _check_commit(s, name, a, start, m)


def _check_commit(s: Setting, name: str, a: Layers, start: Tensor, m: int) -> None:
    keys = a.k[1] if name.startswith("fused") else a.tokens[1]
    a.k[1] = keys
    if s.device.type == "cuda" and "Triton" in name:
        from hybridspec.kernels.gdn import exact

        exact.commit(a.state, a.z, a.k, a.alpha, s.scalar(m))
    else:
        commit_of(s)(a, s.scalar(m))
    g = a.alpha[1, :m].double().log()
    exact_state = gdn_law.retrace(start[1].double(), a.z[1, :m].double(), keys[:m].double(), g)
    compare(s, f"{name}: commit, m = {m}", a.state[1], exact_state, STATES)


def _check_plain(s: Setting, name: str, a: Layers) -> None:
    o, z = gdn_law.recurrent(*(t.double() for t in a.tokens), a.state[1].double())
    compare(s, f"{name}: o", a.o, o)
    compare(s, f"{name}: z", a.z[1], z)


def _check_fused(s: Setting, name: str, a: Layers) -> None:
    mixer = GDNMixer(s.shape.mixer(), s.device, torch.float64)
    taps, rate, bias, norm = (t.double() for t in a.gates)
    mixer.w_conv[:, 0] = taps.t()
    mixer.a_log.copy_((-rate).log())
    mixer.dt_bias.copy_(bias)
    mixer.norm.copy_(norm)
    mixer.prepare()
    columns, gate, b, decay = a.raw[1].split(mixer.widths, -1)
    beta, g = mixer._gates(b[3:].double(), decay[3:].double())
    q, k, v = mixer._convolve(columns)
    o, z = gdn_law.recurrent(q, k, v, beta, g, a.state[1].double())
    exact = mixer._finish(o, gate[3:].double())
    scale = (a.squares.double().sum(-1) / s.shape.dv + EPS).rsqrt()
    compare(s, f"{name}: o", (a.gated.double() * scale[..., None]).flatten(1), exact)
    compare(s, f"{name}: z", a.z[1], z)
    compare(s, f"{name}: k", a.k[1], k)
    compare(s, f"{name}: alpha", a.alpha[1], g.exp(), 1e-5)  # fp32
