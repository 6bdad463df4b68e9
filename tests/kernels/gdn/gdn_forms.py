"""Random inputs, the float64 recurrence, and the four verifiers behind one signature."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from hybridspec.kernels.gdn import naive

OUTPUTS, STATES = 1e-5, 1e-6
# key heads, value heads, dk, dv: head ratios 1, 2, 4 and sizes no vector width divides
SHAPES = [(2, 2, 16, 16), (2, 4, 16, 16), (1, 4, 32, 8), (3, 6, 7, 13), (1, 1, 1, 1)]
LENGTHS = range(1, 17)


class Inputs(NamedTuple):
    """Arguments of a verification, in order."""

    q: Tensor
    k: Tensor
    v: Tensor
    beta: Tensor
    g: Tensor
    state: Tensor

    def to(self, dtype: torch.dtype) -> Inputs:
        return Inputs(*(t.to(dtype) for t in self))

    def rows(self, start: int, stop: int) -> tuple[Tensor, ...]:
        """q, k, v, beta, g of tokens start..stop-1."""
        return tuple(t[start:stop] for t in self[:5])


def inputs(w=16, shape=SHAPES[1], seed=0, dtype=torch.float32, g=None, beta=None, one_key=False):
    """Random tokens on a random state; `g` and `beta` fix the gates, `one_key` repeats one key."""
    key_heads, value_heads, dk, dv = shape
    generator = torch.Generator().manual_seed(seed)

    def normal(*size):
        return torch.randn(*size, generator=generator, dtype=torch.float64)

    q, k = (torch.nn.functional.normalize(normal(w, key_heads, dk), dim=-1) for _ in range(2))
    gates = normal(2, w, value_heads)
    made = Inputs(
        q * dk**-0.5,
        k[:1].expand_as(k).contiguous() if one_key else k,
        normal(w, value_heads, dv),
        gates[0].sigmoid() if beta is None else torch.full_like(gates[0], beta),
        -torch.nn.functional.softplus(gates[1]) if g is None else torch.full_like(gates[1], g),
        normal(value_heads, dv, dk),
    )
    return made.to(dtype)


def law(x: Inputs) -> tuple[Tensor, Tensor]:
    """Outputs [w, VH, dv] and all states [w, VH, dv, dk] in float64, head by head."""
    q, k, v, beta, g, state = x.to(torch.float64)
    w, heads = beta.shape
    shared = heads // k.shape[1]
    o, states = torch.empty_like(v), state.new_empty(w, *state.shape)
    for j in range(heads):
        s = state[j]
        for t in range(w):
            s = s * g[t, j].exp()
            key = k[t, j // shared]
            s = s + torch.outer(beta[t, j] * (v[t, j] - s @ key), key)
            o[t, j], states[t, j] = s @ q[t, j // shared], s
    return o, states


def distance(ours: Tensor, exact: Tensor) -> float:
    return float((ours - exact).norm() / exact.norm().clamp_min(1e-30))


class Run(NamedTuple):
    """One verification: outputs and factors z [w, VH, dv], and the state after m of its tokens."""

    o: Tensor
    z: Tensor
    commit: Callable[[int], Tensor]


def block(x: Inputs) -> Run:
    o, z = naive.block(*x)
    return Run(o, z, lambda m: naive.commit(x.state, z[:m], x.k[:m], x.g[:m]))


def exact(x: Inputs) -> Run:
    o, z = naive.recurrent(*x)
    return Run(o, z, lambda m: naive.retrace(x.state, z[:m], x.k[:m], x.g[:m]))


def per_token(x: Inputs) -> Run:
    states = x.state.new_full((len(x.k), *x.state.shape), torch.nan)
    o, z = naive.recurrent(*x, states)
    return Run(o, z, lambda m: states[m - 1])


def replay(x: Inputs, tokens: int = 16) -> Run:
    """x.state as a checkpoint and the factors of `tokens` before, which fold into it."""
    checkpoint, past = unfolded(x, tokens)
    o, z = naive.block(*x[:5], checkpoint, past)

    def commit(m: int) -> Tensor:
        ring = (torch.cat(pair) for pair in zip(past, (z[:m], x.k[:m], x.g[:m]), strict=True))
        return naive.commit(checkpoint, *ring)

    return Run(o, z, commit)


def unfolded(x: Inputs, tokens: int) -> tuple[Tensor, naive.Factors]:
    """Equation 1 solved for S0: z, k and g at random, of a size that cancels little of x.state."""
    shape = (x.k.shape[1], x.v.shape[1], *x.state.shape[:0:-1])
    y = inputs(tokens, shape, seed=tokens, dtype=torch.float64, g=-0.5 / tokens)
    past = naive.Factors(0.3 * y.v, y.k, y.g)
    added = naive.commit(torch.zeros_like(y.state), *past)
    checkpoint = (x.state.double() - added) * torch.tensor(0.5).double().exp()
    return checkpoint.to(x.state.dtype), naive.Factors(*(t.to(x.state.dtype) for t in past))


FORMS: dict[str, Callable[[Inputs], Run]] = {
    "block": block,
    "exact": exact,
    "per-token": per_token,
    "replay": replay,
}
