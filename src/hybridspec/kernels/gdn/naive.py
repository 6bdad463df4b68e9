"""Gated DeltaNet in plain torch: the law that every kernel of this folder must obey.

Shapes (one sequence): w tokens, KH key heads of size dk, VH value heads of size dv, r = VH / KH
value heads share a key head (value head j uses key head j // r). q, k: [w, KH, dk], both
normalised, q scaled; v: [w, VH, dv]; beta, g: [w, VH] with g = log alpha <= 0; state S: [VH, dv,
dk]. All in the state's dtype. The compact factors of w tokens are (z [w, VH, dv], k [w, KH, dk], g
[w, VH]): they rebuild any prefix state.
"""

from __future__ import annotations

import torch
from torch import Tensor


def recurrent(
    q: Tensor, k: Tensor, v: Tensor, beta: Tensor, g: Tensor, state: Tensor
) -> tuple[Tensor, Tensor]:
    """Verify token by token (`exact`): the result of a token depends on no later token and on no w.

    Returns the outputs o [w, VH, dv] and the factors z [w, VH, dv]; `state` is left as it is.
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
        if t < last:
            state = _rank_one(state * alpha[t], z_t, k[t])
    return o, z


def replay(state: Tensor, z: Tensor, k: Tensor, g: Tensor) -> Tensor:
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


def _rank_one(state: Tensor, z: Tensor, k: Tensor) -> Tensor:
    """S + z k^T for each value head; elementwise, so that its bits do not depend on batching."""
    ratio = state.shape[-3] // k.shape[-2]
    shared = (*k.shape[:-1], ratio, *state.shape[-2:])
    grouped = state.view(shared)
    outer = z.view(*shared[:-1], 1) * k[..., :, None, None, :]
    return outer.add_(grouped).view_as(state)


def block(
    q: Tensor, k: Tensor, v: Tensor, beta: Tensor, g: Tensor, state: Tensor
) -> tuple[Tensor, Tensor]:
    """Verify all w tokens at once (`block`): one triangular solve a head instead of w steps.

    Returns o [w, VH, dv] and z [w, VH, dv]; `state` is left as it is. Source: paper equations 3 and
    10, H Z = diag(beta) (V - diag(e^G) K S0^T), O = diag(e^G) Q S0^T + (Gamma o Q K^T) Z.
    """
    w, shared = len(k), v.shape[1] // k.shape[1]
    qk = torch.cat((q, k)).transpose(0, 1).repeat_interleave(shared, 0)  # [VH, 2w, dk]
    scores = torch.bmm(qk, qk[:, w:].transpose(1, 2))  # [VH, 2w, w]
    reads = torch.bmm(qk, state.transpose(1, 2))  # [VH, 2w, dv]

    total = g.cumsum(0).t().contiguous()  # G [VH, w]
    gamma = (total[:, :, None] - total[:, None]).exp_().tril_()  # e^(G_i - G_j) for i >= j
    grown, rate = total.exp()[:, :, None], beta.t()[:, :, None]

    system = (gamma * scores[:, w:]).mul_(rate)  # H below its unit diagonal
    right = torch.addcmul(v.transpose(0, 1), reads[:, w:], grown, value=-1).mul_(rate)
    z = torch.linalg.solve_triangular(system, right, upper=False, unitriangular=True)
    o = torch.bmm(gamma * scores[:, :w], z).addcmul_(reads[:, :w], grown)
    return o.transpose(0, 1), z.transpose(0, 1)


def commit(state: Tensor, z: Tensor, k: Tensor, g: Tensor) -> Tensor:
    """The state after the m tokens of the factors, in one step (paper equation 7).

    S_m = e^(G_m) S_0 + sum_j e^(G_m - G_j) z_j k_j^T. Leading dimensions as in `replay`.
    """
    m, key_heads = k.shape[-3:-1]
    total = g.cumsum(-2)
    last = total[..., -1:, :]
    weighted = z * (last - total).exp().unsqueeze(-1)  # [..., m, VH, dv]
    rows = z.shape[-2] // key_heads * z.shape[-1]
    left = weighted.reshape(*z.shape[:-3], m, key_heads, rows).movedim(-3, -1)  # [..., KH, r dv, m]
    update = left @ k.movedim(-3, -2)  # [..., KH, r dv, dk]
    return state * last.exp().squeeze(-2)[..., None, None] + update.view_as(state)


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
