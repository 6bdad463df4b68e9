"""The DFlash drafter: one pass proposes a whole block from the target's tapped features.

Each committed token's features become context keys and values once (`extend`); a draft call embeds
[anchor, mask, ..., mask] with the target's embedding and reads its proposals through the target's
head. Row i predicts the token at its own position P + i.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from hybridspec.core import Proposal
from hybridspec.model.attention import attend, causal
from hybridspec.model.config import DrafterConfig
from hybridspec.model.layers import RMSNorm, Rope, weight, wide
from hybridspec.model.target import Target
from hybridspec.runtime.state import DrafterSlot


class DrafterLayer:
    """One Qwen3 block of the drafter. Its norms are plain; q and k are normed per head."""

    def __init__(
        self, config: DrafterConfig, w_in: Tensor, k_norm: Tensor, dtype: torch.dtype
    ) -> None:
        heads, kv, size = config.num_attention_heads, config.num_key_value_heads, config.head_dim
        hidden, inner, device = config.hidden_size, config.intermediate_size, w_in.device
        self.config, self.heads = config, (heads, kv, kv)
        self.w_in, self.k_norm = w_in, k_norm
        self.widths = tuple(h * size for h in self.heads)
        self.w_out = weight(hidden, heads * size, device=device, dtype=dtype)
        self.gate_up = weight(2 * inner, hidden, device=device, dtype=dtype)
        self.down = weight(hidden, inner, device=device, dtype=dtype)
        self.norms = torch.empty(2, hidden, device=device, dtype=wide(dtype))
        self.q_norm = torch.empty(size, device=device, dtype=wide(dtype))

    def slots(self) -> dict[str, Tensor]:
        """Checkpoint name -> view."""
        q, k, v = self.w_in.split(self.widths)
        gate, up = self.gate_up.chunk(2)
        return {
            "self_attn.q_proj.weight": q,
            "self_attn.k_proj.weight": k,
            "self_attn.v_proj.weight": v,
            "self_attn.o_proj.weight": self.w_out,
            "self_attn.q_norm.weight": self.q_norm,
            "self_attn.k_norm.weight": self.k_norm,
            "mlp.gate_proj.weight": gate,
            "mlp.up_proj.weight": up,
            "mlp.down_proj.weight": self.down,
            "input_layernorm.weight": self.norms[0],
            "post_attention_layernorm.weight": self.norms[1],
        }

    def prepare(self) -> None:
        """Build the norms; q and k share one, with a factor a head [H + KV, D]."""
        queries = self.q_norm.expand(self.heads[0], -1)
        factor = torch.cat((queries, self.k_norm.expand(self.heads[1], -1)))
        eps = self.config.rms_norm_eps
        self.qk_norm = RMSNorm(factor, self.config.head_dim, eps)
        self.mixer_norm, self.mlp_norm = (
            RMSNorm(w, self.config.hidden_size, eps) for w in self.norms
        )

    def project(self, x: Tensor, rope: Rope, start: int) -> tuple[Tensor, Tensor, Tensor]:
        """Rotated q [T, H, D], rotated k and v [T, KV, D] of the block's rows x [T, hidden]."""
        u = self.mixer_norm(x)
        rows = F.linear(u, self.w_in).view(x.shape[0], sum(self.heads), -1)
        heads, kv, _ = self.heads
        qk = rope.rotate(self.qk_norm(rows[:, : heads + kv]), start)
        return qk[:, :heads], qk[:, heads:], rows[:, heads + kv :]

    def finish(self, x: Tensor, attended: Tensor) -> Tensor:
        """Attention output and MLP onto the residual."""
        x = torch.addmm(x, attended, self.w_out.t())
        u = self.mlp_norm(x)
        gate, up = F.linear(u, self.gate_up).chunk(2, -1)
        return x.addmm_(F.silu(gate).mul_(up), self.down.t())


class Drafter:
    """A DFlash drafter bound to a target, whose embedding and head it uses."""

    def __init__(
        self,
        config: DrafterConfig,
        device: torch.device | str = "cpu",
        dtype: torch.dtype = torch.float32,
    ) -> None:
        self.config, self.device, self.dtype = config, torch.device(device), dtype
        count, hidden = config.num_hidden_layers, config.hidden_size
        heads, kv, size = config.num_attention_heads, config.num_key_value_heads, config.head_dim

        def empty(*shape: int, of: torch.dtype = dtype) -> Tensor:
            return torch.empty(*shape, device=self.device, dtype=of)

        taps = len(config.target_layer_ids)
        self.fc = weight(hidden, taps * hidden, device=self.device, dtype=dtype)
        self.hidden_norm, self.norm = empty(2, hidden, of=wide(dtype))
        # All layers' input projections side by side: context keys and values of every layer in one
        # product.
        rows = (heads + 2 * kv) * size
        self.w_in = weight(count, rows, hidden, device=self.device, dtype=dtype)
        self.k_norms = empty(count, size, of=wide(dtype))
        self.layers = [
            DrafterLayer(config, w_in, k_norm, dtype)
            for w_in, k_norm in zip(self.w_in, self.k_norms, strict=True)
        ]
        self.sliding = [kind == "sliding_attention" for kind in config.layer_types]
        self.ringed = [i for i, s in enumerate(self.sliding) if s]
        self.whole = [i for i, s in enumerate(self.sliding) if not s]
        # Sliding layers are causal unless the configuration says otherwise, full ones are not.
        self.causal = all(self.sliding) if config.is_causal is None else config.is_causal

    def slots(self) -> dict[str, Tensor]:
        """Checkpoint name -> the view that takes its tensor."""
        named = {
            "fc.weight": self.fc,
            "hidden_norm.weight": self.hidden_norm,
            "norm.weight": self.norm,
        }
        for i, layer in enumerate(self.layers):
            named |= {f"layers.{i}.{name}": slot for name, slot in layer.slots().items()}
        return named

    def prepare(self) -> None:
        """Derive what the passes use from the loaded tensors. Call once, after loading."""
        size, eps = self.config.hidden_size, self.config.rms_norm_eps
        self.context_norm = RMSNorm(self.hidden_norm, size, eps)
        self.final_norm = RMSNorm(self.norm, size, eps)
        self.key_norm = RMSNorm(self.k_norms[:, None, None], self.config.head_dim, eps)
        for layer in self.layers:
            layer.prepare()
        self.rope = self._rope(self.config.block_size)

    def set_context(self, capacity: int) -> None:
        """Make rotary tables reach `capacity` positions and a block past them; they only grow."""
        if capacity + self.config.block_size > self.rope.capacity:
            self.rope = self._rope(capacity + self.config.block_size)

    def extend(self, features: Tensor, slot: DrafterSlot) -> None:
        """Add the features [m, taps * hidden] of the next m committed tokens to the context."""
        config, start, tokens = self.config, slot.length, features.shape[0]
        kv, size = config.num_key_value_heads, config.head_dim
        c = self.context_norm(F.linear(features, self.fc))
        w_kv = self.w_in[:, config.num_attention_heads * size :]
        rows = torch.matmul(c, w_kv.transpose(1, 2)).view(len(self.layers), tokens, 2 * kv, size)
        k, v = rows.chunk(2, 2)  # [L, m, KV, D]
        k = self.key_norm(k)
        both = torch.stack((self.rope.rotate(k, start), v)).transpose(2, 3)  # [2, L, KV, m, D]
        if self.whole:
            slot.full[:, :, :, start : start + tokens] = _take(both, self.whole)
        if self.ringed:
            ring = slot.ring.shape[-2]
            recent = _take(both, self.ringed)[..., -ring:, :]
            first = start + tokens - recent.shape[-2]
            slot.ring[:, :, :, _places(first, start + tokens, ring)] = recent
        slot.length += tokens

    def propose(
        self, target: Target, anchor: int, slot: DrafterSlot, drafts: int, *, scored: bool = False
    ) -> Proposal:
        """Propose the first `drafts` <= D tokens after `anchor`, which sits at position P.

        Rows that see later rows need the whole block; a causal drafter runs only the wanted ones.
        `scored` adds top-1 confidence and entropy, for policies that read them.
        """
        size = 1 + drafts if self.causal else self.config.block_size
        rows = self._block(target, anchor, slot, size)[1 : drafts + 1]
        logits = target.logits(self.final_norm(rows))
        if not scored:
            return Proposal(logits.argmax(-1))
        logp = logits.log_softmax(-1)
        best, tokens = logp.max(-1)
        return Proposal(tokens, best.exp(), -(logp.exp() * logp).sum(-1))

    def _rope(self, rows: int) -> Rope:
        theta, width = self.config.rope_theta, self.config.head_dim
        return Rope(theta, width, rows, self.device, self.dtype)

    def _block(self, target: Target, anchor: int, slot: DrafterSlot, size: int) -> Tensor:
        """The first `size` rows after all layers, [size, hidden]; their keys are not kept."""
        start, end = slot.length, slot.length + size
        ids = torch.full((size,), self.config.mask_token_id, device=self.device)
        ids[0] = anchor
        x = target.embedding[ids]
        whole = (slice(start, end), end, causal(size, self.device) if self.causal else None)
        ringed = self._ring_rows(start, end, slot.ring.shape[-2])
        for layer, (keys, values), sliding in zip(
            self.layers, slot.layers(self.sliding), self.sliding, strict=True
        ):
            places, rows, visible = ringed if sliding else whole
            q, k, v = layer.project(x, self.rope, start)
            keys[:, places], values[:, places] = k.transpose(0, 1), v.transpose(0, 1)
            x = layer.finish(x, attend(q, keys[:, :rows], values[:, :rows], visible))
        return x

    def _ring_rows(
        self, start: int, end: int, ring: int
    ) -> tuple[slice | Tensor, int, Tensor | None]:
        """Sliding layers: the block's places in the ring, rows in use, and what each query sees.

        A row sees keys of its window (query - key < window), and by default none after itself. The
        ring row j holds the newest position congruent to j, counting the block.
        """
        forward = self.config.is_causal is False
        window = self.config.sliding_window or end
        if end <= min(window, ring):  # neither the ring's end nor the window's is in sight
            return slice(start, end), end, None if forward else causal(end - start, self.device)
        queries = torch.arange(start, end, device=self.device)
        rows = torch.arange(min(end, ring), device=self.device)
        age = queries[:, None] - (rows + (end - 1 - rows) // ring * ring)
        visible = age < window
        if not forward:
            visible &= age >= 0
        return queries % ring, len(rows), visible


def _take(both: Tensor, layers: list[int]) -> Tensor:
    """Some layers of [2, L, ...]: a view where they lie side by side."""
    if layers[-1] - layers[0] + 1 == len(layers):
        return both[:, layers[0] : layers[-1] + 1]
    return both[:, layers]


def _places(first: int, end: int, ring: int) -> slice | Tensor:
    """The ring rows of positions first..end-1: a slice until the ring is full."""
    return slice(first, end) if end <= ring else torch.arange(first, end) % ring
