"""The mixture of experts, cut at the router: `route` says which experts, `combine` runs them."""

from __future__ import annotations

from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor

from hybridspec.kernels import support
from hybridspec.model.config import TargetConfig
from hybridspec.model.layers import add_product, product, weight, wide

# A layer whose experts together are no larger than this is run as one wide MLP with a routing mask
# for short inputs: two products over all experts cost less than the calls to gather the chosen
# ones.
DENSE_BYTES = 8 << 20
DENSE_TOKENS = 64
FEW = 16  # tokens of a verification; more are a prompt


class MoE:
    """Top-k routed experts, renormalised over the top k, plus a gated shared expert."""

    def __init__(self, config: TargetConfig, device: torch.device, dtype: torch.dtype) -> None:
        self.config, self.wide = config, wide(dtype)
        hidden, experts = config.hidden_size, config.num_experts
        inner, shared = config.moe_intermediate_size, config.shared_expert_intermediate_size
        empty = partial(weight, device=device, dtype=dtype)
        self.router = empty(experts, hidden)
        self.gate_up = empty(experts * 2 * inner, hidden).view(experts, 2 * inner, hidden)
        self.down = empty(experts, hidden, inner)
        self.shared_widths = (shared, shared, 1)  # gate, up, output gate
        self.shared_in = empty(sum(self.shared_widths), hidden)
        self.shared_down = empty(hidden, shared)
        self.small = self.sorts = False

    def slots(self) -> dict[str, Tensor]:
        """Checkpoint name -> view."""
        gate, up, output_gate = self.shared_in.split(self.shared_widths)
        return {
            "gate.weight": self.router,
            "experts.gate_up_proj": self.gate_up,
            "experts.down_proj": self.down,
            "shared_expert.gate_proj.weight": gate,
            "shared_expert.up_proj.weight": up,
            "shared_expert.down_proj.weight": self.shared_down,
            "shared_expert_gate.weight": output_gate,
        }

    def prepare(self) -> None:
        """Decide whether the dense form pays, and whether a GPU's kernels serve these experts.

        On a CPU the dense form needs no copies: see `weight`.
        """
        small = self.gate_up.nbytes + self.down.nbytes <= DENSE_BYTES
        self.small = small and self.down.device.type == "cpu"
        self.sorts = support.serves("A prompt's experts", self.down.device, self._refusal)

    def _refusal(self) -> str | None:
        from hybridspec.kernels.moe import grouped

        return grouped.refusal(self.gate_up)

    def route(self, u: Tensor) -> tuple[Tensor, Tensor]:
        """u [T, hidden] -> experts [T, k] int64 and their weights [T, k], which sum to 1.

        Softmax over all experts, top k, renormalise: the same as softmax over the k largest logits.
        """
        logits = product(u, self.router).to(self.wide)
        top, experts = logits.topk(self.config.num_experts_per_tok, -1)
        return experts, top.softmax(-1)

    def combine(self, residual: Tensor, u: Tensor, experts: Tensor, weights: Tensor) -> Tensor:
        """Residual + routed experts' weighted sum + gated shared expert: [T, hidden]."""
        gate, up, output_gate = product(u, self.shared_in).split(self.shared_widths, -1)
        inner = F.silu(gate).mul_(up).mul_(output_gate.sigmoid())
        y = add_product(residual, inner, self.shared_down)
        if self.small and u.shape[0] <= DENSE_TOKENS:
            return self._dense(u, experts, weights, y)
        if self.sorts and u.shape[0] > FEW:
            return self._sorted(u, experts, weights, y)
        return self._grouped(u, experts, weights, y)

    def _dense(self, u: Tensor, experts: Tensor, weights: Tensor, y: Tensor) -> Tensor:
        """All experts as one MLP, those not chosen with weight zero; adds to y."""
        tokens, count = u.shape[0], self.config.num_experts
        mask = u.new_zeros(tokens, count).scatter_(1, experts, weights.to(u.dtype))
        gate, up = product(u, self.gate_up.flatten(0, 1)).view(tokens, count, 2, -1).unbind(2)
        inner = F.silu(gate).mul_(up).mul_(mask.unsqueeze(-1))
        side_by_side = self.down.transpose(1, 2).flatten(0, 1).t()  # [hidden, E * I]
        return add_product(y, inner.flatten(1), side_by_side)

    def _sorted(self, u: Tensor, experts: Tensor, weights: Tensor, y: Tensor) -> Tensor:
        """On a GPU: tokens sorted by expert, two grouped products; adds to y."""
        from hybridspec.kernels.moe import grouped

        return grouped.combine(u, experts, weights, self.gate_up, self.down, y)

    def _grouped(self, u: Tensor, experts: Tensor, weights: Tensor, y: Tensor) -> Tensor:
        """Each chosen expert once, over the tokens that chose it; adds to y."""
        order = experts.flatten().argsort(stable=True)
        tokens = order // experts.shape[1]
        scale = weights.flatten()[order].to(u.dtype).unsqueeze(-1)
        counts = experts.flatten().bincount(minlength=self.config.num_experts).tolist()
        start = 0
        for expert in (e for e, count in enumerate(counts) if count):
            part = slice(start, start + counts[expert])
            start = part.stop
            gate, up = product(u[tokens[part]], self.gate_up[expert]).chunk(2, -1)
            y.index_add_(
                0, tokens[part], product(F.silu(gate) * up, self.down[expert]) * scale[part]
            )
        return y
