"""The Gated DeltaNet mixer: projections, convolution and gates around `kernels/gdn`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from hybridspec.kernels import support
from hybridspec.kernels.gdn import naive
from hybridspec.model.config import TargetConfig
from hybridspec.model.layers import RMSNorm, product, weight, wide

Verifier = Literal["exact", "block", "per-token", "replay"]
L2_EPS = 1e-6


class GDNBuffers(NamedTuple):
    """One layer's share of a slot: views that the mixer reads and writes.

    state [VH, dv, dk], conv [3 + rows, C] raw columns (the first 3 are history), and the compact
    factors z [W, VH, dv], k [W, KH, dk], g [W, VH] that a verification writes.
    `per-token` alone has states [W, VH, dv, dk], one for every token; `replay` alone has `past`,
    the factors of committed tokens that `state` does not hold yet, if there are any.
    """

    state: Tensor
    conv: Tensor
    z: Tensor
    k: Tensor
    g: Tensor
    states: Tensor | None = None
    past: naive.Factors | None = None


class Tokens(NamedTuple):
    """What a verifier takes of w tokens: shapes as in `kernels/gdn/naive.py`."""

    q: Tensor
    k: Tensor
    v: Tensor
    beta: Tensor
    g: Tensor


def _per_token(tokens: Tokens, buffers: GDNBuffers) -> tuple[Tensor, Tensor]:
    assert buffers.states is not None
    return naive.recurrent(*tokens, buffers.state, buffers.states)


# Each returns the outputs and factors z [w, VH, dv].
VERIFY: dict[Verifier, Callable[[Tokens, GDNBuffers], tuple[Tensor, Tensor]]] = {
    "exact": lambda tokens, buffers: naive.recurrent(*tokens, buffers.state),
    "block": lambda tokens, buffers: naive.block(*tokens, buffers.state),
    "per-token": _per_token,
    "replay": lambda tokens, buffers: naive.block(*tokens, buffers.state, buffers.past),
}


class GDNMixer:
    """One GDN layer's mixer: `verify` keeps factors and leaves the state, `prefill` advances it."""

    def __init__(self, config: TargetConfig, device: torch.device, dtype: torch.dtype) -> None:
        self.config, self.wide = config, wide(dtype)
        hidden, heads = config.hidden_size, config.linear_num_value_heads
        self.widths = (config.conv_dim, config.value_dim, heads, heads)  # qkv, z, b, a
        self.taps = config.linear_conv_kernel_dim
        self.w_in = weight(sum(self.widths), hidden, device=device, dtype=dtype)
        self.w_out = weight(hidden, config.value_dim, device=device, dtype=dtype)
        self.w_conv = torch.empty(config.conv_dim, 1, self.taps, device=device, dtype=dtype)
        self.a_log, self.dt_bias = torch.empty(2, heads, device=device, dtype=self.wide)
        self.norm = torch.empty(config.linear_value_head_dim, device=device, dtype=self.wide)
        self.chunked = False

    def slots(self) -> dict[str, Tensor]:
        """Checkpoint name -> view."""
        qkv, z, b, a = self.w_in.split(self.widths)
        return {
            "in_proj_qkv.weight": qkv,
            "in_proj_z.weight": z,
            "in_proj_b.weight": b,
            "in_proj_a.weight": a,
            "conv1d.weight": self.w_conv,
            "A_log": self.a_log,
            "dt_bias": self.dt_bias,
            "norm.weight": self.norm,
            "out_proj.weight": self.w_out,
        }

    def prepare(self) -> None:
        """Derive -exp(A_log), tap-major convolution weights and the norms."""
        config = self.config
        self.rate = -self.a_log.exp()
        self.conv_weight = self.w_conv[:, 0].t().to(self.wide).contiguous()  # [taps, C]
        size = config.linear_key_head_dim
        # q and k are divided by their lengths, which is the norm / sqrt(size); q by sqrt(size)
        # again.
        factors = torch.tensor([[[1 / size]], [[size**-0.5]]], dtype=self.wide)
        self.qk_norm = RMSNorm(factors.to(self.rate.device), size, L2_EPS / size)
        self.out_norm = RMSNorm(self.norm, config.linear_value_head_dim, config.rms_norm_eps)
        self.chunked = support.serves("A prompt's GDN layers", self.w_in.device, self._refusal)

    def _refusal(self) -> str | None:
        from hybridspec.kernels.gdn import chunked

        return chunked.refusal(self._heads(), self.w_in.dtype)

    def _heads(self) -> tuple[int, int, int, int]:
        """KH, VH, dk, dv."""
        c = self.config
        return (
            c.linear_num_key_heads,
            c.linear_num_value_heads,
            c.linear_key_head_dim,
            c.linear_value_head_dim,
        )

    def verify(self, u: Tensor, buffers: GDNBuffers, verifier: Verifier) -> Tensor:
        """u [w, hidden] -> [w, VH * dv], not yet projected back; leaves the state.

        Fills the convolution columns, the factors and, for `per-token`, the states.
        """
        w = u.shape[0]
        qkv, z, b, a = self._project(u)
        buffers.conv[self.taps - 1 : self.taps - 1 + w] = qkv
        q, k, v = self._convolve(buffers.conv[: self.taps - 1 + w])
        beta, g = self._gates(b, a)
        o, buffers.z[:w] = VERIFY[verifier](Tokens(q, k, v, beta, g), buffers)
        buffers.k[:w] = k
        buffers.g[:w] = g
        return self._finish(o, z)

    def prefill(self, u: Tensor, buffers: GDNBuffers) -> Tensor:
        """u [T, hidden] -> [T, VH * dv]; advances state and convolution history over T tokens."""
        if self.chunked:
            return self._prefill_chunked(u, buffers)
        history = buffers.conv[: self.taps - 1]
        qkv, z, b, a = self._project(u)
        window = torch.cat((history, qkv))
        q, k, v = self._convolve(window)
        beta, g = self._gates(b, a)
        o, state = naive.prefill(q, k, v, beta, g, buffers.state)
        buffers.state.copy_(state)
        history.copy_(window[-(self.taps - 1) :])
        return self._finish(o, z)

    def _prefill_chunked(self, u: Tensor, buffers: GDNBuffers) -> Tensor:
        """The same by a GPU's kernels."""
        from hybridspec.kernels.gdn import chunked, ends

        history = buffers.conv[: self.taps - 1]
        qkv, z, b, a = self._project(u)
        q, k, v = ends.convolve(qkv, history, self.conv_weight, ends.Heads(*self._heads()), L2_EPS)
        history.copy_(torch.cat((history, qkv[-(self.taps - 1) :]))[-(self.taps - 1) :])
        o = chunked.prefill(q, k, v, *self._gates(b, a), buffers.state)
        return ends.finish(o, z, self.norm, self.config.rms_norm_eps)

    def _project(self, u: Tensor) -> tuple[Tensor, ...]:
        """The four input projections in one product."""
        parts: tuple[Tensor, ...] = product(u, self.w_in).split(self.widths, -1)
        return parts

    def _convolve(self, window: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Raw columns [taps - 1 + T, C] -> normalised q, k [T, KH, dk] and v [T, VH, dv]."""
        config, tokens = self.config, window.shape[0] - self.taps + 1
        y = (window.to(self.wide).unfold(0, self.taps, 1).transpose(1, 2) * self.conv_weight).sum(1)
        y = F.silu(y).to(window.dtype).to(self.wide)
        qk, v = y.split((2 * config.key_dim, config.value_dim), -1)
        size = config.linear_key_head_dim
        qk = qk.view(tokens, 2, config.linear_num_key_heads, size)
        qk = self.qk_norm(qk)
        return qk[:, 0], qk[:, 1], v.view(tokens, -1, config.linear_value_head_dim)

    def _gates(self, b: Tensor, a: Tensor) -> tuple[Tensor, Tensor]:
        """beta = sigmoid(b) and g = -exp(A_log) softplus(a + dt_bias), both [T, VH]."""
        # float64 hides that vector and scalar code differ in the last bit: T decides which runs
        rate = F.softplus((a.to(self.wide) + self.dt_bias).double()).to(self.wide) * self.rate
        return b.double().sigmoid().to(self.wide), rate

    def _finish(self, o: Tensor, z: Tensor) -> Tensor:
        """Norm each head and gate it with silu(z)."""
        gate = F.silu(z.to(self.wide)).view_as(o)
        y = self.out_norm(o).mul_(gate)
        return y.flatten(1).to(z.dtype)
