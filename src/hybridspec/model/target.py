"""The hybrid target, cut at the router boundary of layer 0 (paper section 4: Stage 0 and Stage 1).

Three passes share the layers: `prefill` advances the state; `stage0` + `stage1` verify up to W
inputs and leave the state to `commit`; `verify_unsplit` is the same without the cut.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from hybridspec.model.attention import GatedAttention
from hybridspec.model.config import TargetConfig
from hybridspec.model.gdn import GDNMixer, Verifier
from hybridspec.model.layers import RMSNorm, Rope, add_product, product, weight, wide
from hybridspec.model.moe import MoE
from hybridspec.runtime.state import TargetSlot, W


class Stage0(NamedTuple):
    """What the router boundary keeps of u tokens: Stage 1 goes on from any first w <= u of them.

    residual, moe_input [u, hidden]; experts [u, k] int64; weights [u, k].
    """

    residual: Tensor
    moe_input: Tensor
    experts: Tensor
    weights: Tensor


class PassOutput(NamedTuple):
    """logits [w, V], float32 or float64; features [T, taps * hidden] or None."""

    logits: Tensor
    features: Tensor | None


class Layer:
    """One block: mixer, then mixture of experts, each on a zero-centred norm of the residual."""

    def __init__(
        self, config: TargetConfig, index: int, device: torch.device, dtype: torch.dtype
    ) -> None:
        self.config, self.linear = config, config.layer_types[index] == "linear_attention"
        same_kind = config.linear_layers if self.linear else config.full_layers
        self.place = same_kind.index(index)  # among the layers of its kind
        self.gdn = GDNMixer(config, device, dtype) if self.linear else None
        self.attention = None if self.linear else GatedAttention(config, device, dtype)
        mixer = self.gdn or self.attention
        assert mixer is not None
        self.w_out = mixer.w_out
        self.mlp = MoE(config, device, dtype)
        self.norms = torch.empty(2, config.hidden_size, device=device, dtype=wide(dtype))

    def slots(self) -> dict[str, Tensor]:
        """Checkpoint name -> view."""
        named = {
            "input_layernorm.weight": self.norms[0],
            "post_attention_layernorm.weight": self.norms[1],
        }
        parts = {"linear_attn": self.gdn, "self_attn": self.attention, "mlp": self.mlp}
        for prefix, part in parts.items():
            if part is not None:
                named |= {f"{prefix}.{name}": slot for name, slot in part.slots().items()}
        return named

    def prepare(self) -> None:
        """Norms are zero-centred: the factor is 1 + weight."""
        self.mixer_norm, self.mlp_norm = (
            RMSNorm(1 + w, self.config.hidden_size, self.config.rms_norm_eps) for w in self.norms
        )
        for part in (self.gdn, self.attention, self.mlp):
            if part is not None:
                part.prepare()

    def mix(self, x: Tensor, step: Step) -> Tensor:
        """Residual after the mixer: [T, hidden]."""
        u = self.mixer_norm(x)
        if self.gdn is not None:
            buffers = step.slot.layer(self.place, step.verifier)
            y = (
                self.gdn.verify(u, buffers, step.verifier)
                if step.verifier
                else self.gdn.prefill(u, buffers)
            )
        else:
            assert self.attention is not None
            keys, values = step.slot.keys[self.place], step.slot.values[self.place]
            y = self.attention(u, keys, values, step.slot.length, step.rope)
        return add_product(x, y, self.w_out)

    def route(self, x: Tensor) -> Stage0:
        """Norm and route: everything before the first expert."""
        u = self.mlp_norm(x)
        return Stage0(x, u, *self.mlp.route(u))

    def experts(self, routed: Stage0) -> Tensor:
        """Residual after the experts: [T, hidden]."""
        return self.mlp.combine(*routed)

    def __call__(self, x: Tensor, step: Step) -> Tensor:
        """The whole block."""
        routed = self.route(self.mix(x, step))
        if step.slot.routes is not None:
            step.slot.routes.append(routed.experts)
        return self.experts(routed)


class Step(NamedTuple):
    """What a pass hands to every layer. No verifier means prefill."""

    slot: TargetSlot
    rope: Rope
    verifier: Verifier | None


class Target:
    """A Qwen3.5/3.6-MoE text model: fill `slots()`, call `prepare()`, run passes over a slot."""

    def __init__(
        self,
        config: TargetConfig,
        device: torch.device | str = "cpu",
        dtype: torch.dtype = torch.float32,
    ) -> None:
        device = torch.device(device)
        self.config, self.device, self.dtype = config, device, dtype
        shape = (config.vocab_size, config.hidden_size)
        self.head = weight(*shape, device=device, dtype=dtype)
        self.embedding = self.head
        if not config.tie_word_embeddings:
            self.embedding = torch.empty(shape, device=device, dtype=dtype)
        self.layers = [Layer(config, i, device, dtype) for i in range(config.num_hidden_layers)]
        self.norm = torch.empty(config.hidden_size, device=device, dtype=wide(dtype))

    def slots(self) -> dict[str, Tensor]:
        """Checkpoint name (without prefix) -> the view that takes its tensor."""
        named = {"embed_tokens.weight": self.embedding, "norm.weight": self.norm}
        if not self.config.tie_word_embeddings:
            named["lm_head.weight"] = self.head
        for i, layer in enumerate(self.layers):
            named |= {f"layers.{i}.{name}": slot for name, slot in layer.slots().items()}
        return named

    def prepare(self) -> None:
        """Derive what the passes use from the loaded tensors. Call once, after loading."""
        config = self.config
        self.final_norm = RMSNorm(1 + self.norm, config.hidden_size, config.rms_norm_eps)
        for layer in self.layers:
            layer.prepare()
        self.rope = self._rope(W)

    def set_context(self, capacity: int) -> None:
        """Make rotary tables reach `capacity` positions and the spare rows past them.

        They only grow: several engines may share a target.
        """
        if capacity + W > self.rope.capacity:
            self.rope = self._rope(capacity + W)

    def prefill(self, ids: Tensor, slot: TargetSlot) -> PassOutput:
        """Run ids [T] and advance the slot. Logits are the last token's only: [1, V]."""
        step = Step(slot, self.rope, None)
        x, taps = self._run(self.embedding[ids], 0, step)
        slot.length += ids.shape[0]
        return self._output(x[-1:], taps, step)

    def read(self, ids: Tensor, slot: TargetSlot) -> Tensor:
        """As `prefill`, for what comes at every position: normalised rows [T, hidden], for
        `logits`."""
        x, _ = self._run(self.embedding[ids], 0, Step(slot, self.rope, None))
        slot.length += ids.shape[0]
        return self.final_norm(x)

    def stage0(self, ids: Tensor, slot: TargetSlot, verifier: Verifier) -> Stage0:
        """ids [u] at positions P..P+u-1, through layer 0's router and no further."""
        step = Step(slot, self.rope, verifier)
        return self.layers[0].route(self.layers[0].mix(self.embedding[ids], step))

    def stage1(self, stage0: Stage0, w: int, slot: TargetSlot, verifier: Verifier) -> PassOutput:
        """Finish the first w tokens of Stage 0, from layer 0's experts to the logits."""
        kept = Stage0(*(t[:w] for t in stage0))
        step = Step(slot, self.rope, verifier)
        after_first = self.layers[0].experts(kept)
        x, taps = self._run(after_first, 1, step)
        return self._output(x, {0: after_first} | taps, step)

    def verify_unsplit(self, ids: Tensor, slot: TargetSlot, verifier: Verifier) -> PassOutput:
        """The same verification of ids [w] without the cut, for comparison."""
        step = Step(slot, self.rope, verifier)
        x, taps = self._run(self.embedding[ids], 0, step)
        return self._output(x, taps, step)

    def commit(self, slot: TargetSlot, m: int, verifier: Verifier) -> None:
        """Keep the first m inputs of the slot's last verification, which was one of `verifier`."""
        slot.commit(m, verifier)

    def logits(self, hidden: Tensor) -> Tensor:
        """Head on normalised rows [T, hidden] -> [T, V]; the drafter uses it too."""
        return product(hidden, self.head).to(wide(self.dtype))

    def _rope(self, rows: int) -> Rope:
        theta, width = self.config.rope_theta, self.config.rotary_dim
        return Rope(theta, width, rows, self.device, self.dtype)

    def _run(self, x: Tensor, first: int, step: Step) -> tuple[Tensor, dict[int, Tensor]]:
        """Layers first.. on x; the residuals after the tapped ones, by layer."""
        taps = {}
        for i, layer in enumerate(self.layers[first:], first):
            x = layer(x, step)
            if i in step.slot.tap_layers:
                taps[i] = x
        return x, taps

    def _output(self, x: Tensor, taps: dict[int, Tensor], step: Step) -> PassOutput:
        logits = self.logits(self.final_norm(x))
        wanted = step.slot.tap_layers
        return PassOutput(logits, torch.cat([taps[i] for i in wanted], -1) if wanted else None)
