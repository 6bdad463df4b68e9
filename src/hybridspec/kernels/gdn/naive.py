"""Gated DeltaNet in plain torch: the law that every kernel of this folder must obey.

Shapes (one sequence): w tokens, KH key heads of size dk, VH value heads of size dv, r = VH / KH
value heads share a key head (value head j uses key head j // r). q, k: [w, KH, dk], both
normalised, q scaled; v: [w, VH, dv]; beta, g: [w, VH] with g = log alpha <= 0; state S: [VH, dv,
dk]. All in the state's dtype.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor


class Factors(NamedTuple):
    """The compact factors of n tokens, z [n, VH, dv], k [n, KH, dk], g [n, VH].

    They turn the state before the tokens into the state after any prefix of them.
    """

    z: Tensor
    k: Tensor
    g: Tensor


def recurrent(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    beta: Tensor,
    g: Tensor,
    state: Tensor,
    states: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Verify token by token (`exact`): the result of a token depends on no later token and on no w.

    Returns the outputs o [w, VH, dv] and the factors z [w, VH, dv]; `state` is left as it is.
    `states` [w, VH, dv, dk], when given, takes the state after every token (`per-token`): nothing
    else changes, so both verifiers compute the same bits.
    Source: paper equation 2 (the gated delta rule). With S' = alpha S, z = beta (v - S' k) and
    S = S' + z k^T, the output is S q = S' q + z (k . q): one product reads S' for both.
    """
    key_heads, dk = k.shape[1:]
    value_heads, dv = v.shape[1:]
    rows = (key_heads, value_heads // key_heads * dv, dk)
    alpha, rate = _alpha(g)[..., None, None], beta.unsqueeze(-1)
    pairs = torch.stack((k, q), -1)  # [w, KH, dk, 2]
    overlap = (k * q).sum(-1).repeat_interleave(value_heads // key_heads, -1).unsqueeze(-1)
    o, z = torch.empty_like(v), torch.empty_like(v)
    last = len(v) - 1
    for t, pair in enumerate(pairs):
        reads = torch.bmm(state.view(rows), pair).view(value_heads, dv, 2).mul_(alpha[t])
        z_t = torch.sub(v[t], reads[..., 0], out=z[t]).mul_(rate[t])
        torch.addcmul(reads[..., 1], z_t, overlap[t], out=o[t])
        if states is not None:
            state = _rank_one(state * alpha[t], z_t, k[t], states[t])
        elif t < last:
            state = _rank_one(state * alpha[t], z_t, k[t])
    return o, z


def retrace(state: Tensor, z: Tensor, k: Tensor, g: Tensor) -> Tensor:
    """The state after the m tokens of the factors, by the very operations of `recurrent`.

    Leading dimensions (layers) may precede: state [..., VH, dv, dk], z [..., m, VH, dv],
    k [..., m, KH, dk], g [..., m, VH]. Bit-equal to what `recurrent` held after token m.
    """
    alpha = _alpha(g)[..., None, None]
    for t in range(z.shape[-3]):
        state = _rank_one(state * alpha[..., t, :, :, :], z[..., t, :, :], k[..., t, :, :])
    return state


def _alpha(g: Tensor) -> Tensor:
    """e^g. float64 hides that vector and scalar code differ in the last bit of float32."""
    return g.double().exp().to(g.dtype)


def _rank_one(state: Tensor, z: Tensor, k: Tensor, out: Tensor | None = None) -> Tensor:
    """S + z k^T for each value head; elementwise, so that its bits do not depend on batching."""
    ratio = state.shape[-3] // k.shape[-2]
    shared = (*k.shape[:-1], ratio, *state.shape[-2:])
    grouped = state.view(shared)
    into = None if out is None else out.view(shared)
    outer = torch.mul(z.view(*shared[:-1], 1), k[..., :, None, None, :], out=into)
    return outer.add_(grouped).view_as(state)


def block(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    beta: Tensor,
    g: Tensor,
    state: Tensor,
    past: Factors | None = None,
) -> tuple[Tensor, Tensor]:
    """Verify all w tokens at once (`block`): one triangular solve a head instead of w steps.

    Returns o [w, VH, dv] and z [w, VH, dv]; `state` is left as it is. Source: paper equations 3 and
    10, H Z = diag(beta) (V - diag(e^G) K S0^T), O = diag(e^G) Q S0^T + (Gamma o Q K^T) Z.
    With the factors `past` of n earlier tokens, S0 is the state after these, which is read without
    being formed (`replay`: a checkpoint and a ring).
    """
    w, shared = len(k), v.shape[1] // k.shape[1]
    qk = torch.cat((q, k)).transpose(0, 1).repeat_interleave(shared, 0)  # [VH, 2w, dk]
    scores = torch.bmm(qk, qk[:, w:].transpose(1, 2))  # [VH, 2w, w]
    reads = torch.bmm(qk, state.transpose(1, 2))  # [VH, 2w, dv]
    if past is not None:
        reads = _read_past(reads, qk, past)

    total = _running(g, 0).t()  # G [VH, w]
    gamma = (total[:, :, None] - total[:, None]).exp_().tril_().to(g.dtype)  # e^(G_i - G_j), i >= j
    grown, rate = total.exp().to(g.dtype)[:, :, None], beta.t()[:, :, None]

    system = (gamma * scores[:, w:]).mul_(rate)  # H below its unit diagonal
    right = torch.addcmul(v.transpose(0, 1), reads[:, w:], grown, value=-1).mul_(rate)
    z = torch.linalg.solve_triangular(system, right, upper=False, unitriangular=True)
    o = torch.bmm(gamma * scores[:, :w], z).addcmul_(reads[:, :w], grown)
    return o.transpose(0, 1), z.transpose(0, 1)


def _read_past(reads: Tensor, qk: Tensor, past: Factors) -> Tensor:
    """From reads [VH, rows, dv] of a checkpoint by qk [VH, rows, dk] to reads of the state after
    `past`: S_n x = e^(G_n) S0 x + sum_j e^(G_n - G_j) (k_j . x) z_j."""
    shared = past.z.shape[1] // past.k.shape[1]
    keys = past.k.transpose(0, 1).repeat_interleave(shared, 0)  # [VH, n, dk]
    grown, left = _decays(past.g)
    scores = torch.bmm(qk, keys.transpose(1, 2)).mul_(left.t()[:, None])  # [VH, rows, n]
    return torch.baddbmm(reads * grown[:, None, None], scores, past.z.transpose(0, 1))


def _running(g: Tensor, dim: int) -> Tensor:
    """G_i = g_1 + ... + g_i in float64: their differences would not survive a strong decay in
    float32, where one step of -300 leaves all later sums only four digits after the point."""
    return g.cumsum(dim, dtype=torch.float64)


def _decays(g: Tensor) -> tuple[Tensor, Tensor]:
    """Of g [..., n, VH]: e^(G_n) [..., VH] and e^(G_n - G_j) [..., n, VH]."""
    total = _running(g, -2)
    last = total[..., -1:, :]
    return last.exp().squeeze(-2).to(g.dtype), (last - total).exp_().to(g.dtype)


def commit(state: Tensor, z: Tensor, k: Tensor, g: Tensor) -> Tensor:
    """The state after the m tokens of the factors, in one step (paper equation 7).

    S_m = e^(G_m) S_0 + sum_j e^(G_m - G_j) z_j k_j^T. Leading dimensions as in `retrace`.
    """
    m, key_heads = k.shape[-3:-1]
    grown, left = _decays(g)
    weighted = z * left.unsqueeze(-1)  # [..., m, VH, dv]
    rows = z.shape[-2] // key_heads * z.shape[-1]
    left = weighted.reshape(*z.shape[:-3], m, key_heads, rows).movedim(-3, -1)  # [..., KH, r dv, m]
    update = left @ k.movedim(-3, -2)  # [..., KH, r dv, dk]
    return state * grown[..., None, None] + update.view_as(state)


def prefill(
    q: Tensor, k: Tensor, v: Tensor, beta: Tensor, g: Tensor, state: Tensor, chunk: int = 64
) -> tuple[Tensor, Tensor]:
    """Run any number of tokens chunk by chunk: o [T, VH, dv] and the state after the last one."""
    outputs = []
    for start in range(0, k.shape[0], chunk):
        part = slice(start, start + chunk)
        o, z = block(q[part], k[part], v[part], beta[part], g[part], state)
        state = commit(state, z, k[part], g[part])
        outputs.append(o)
    return torch.cat(outputs), state
