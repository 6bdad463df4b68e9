"""The drafter's passes at a model's full shape, on random weights: against the law in float64, and
timed whole and product by product.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

import torch
from torch import Tensor

from hybridspec.kernels.bench.checks import compare, same
from hybridspec.kernels.bench.drafter_products import time_fc, time_joint, time_mlp
from hybridspec.kernels.bench.setting import EPS, Setting
from hybridspec.kernels.forward.drafter import DrafterPass
from hybridspec.kernels.forward.drafter_buffers import DrafterBuffers
from hybridspec.kernels.forward.drafter_weights import DrafterWeights
from hybridspec.model.config import DrafterConfig
from hybridspec.model.drafter import Drafter
from hybridspec.runtime.drafter_state import DrafterSlot, DrafterState

ADDED = (1, 6, 16)
TIMES = 1.5  # a result's distance from float64's, by that of plain torch in the same dtype


@dataclass(frozen=True, slots=True)
class Draft:
    """A drafter, its memory, and the two tables that it has from a target."""

    model: Drafter
    slot: DrafterSlot
    embedding: Tensor
    head: Tensor

    def block(self, anchor: int) -> Tensor:
        """The law's stream after the last norm, [16, K]."""
        # of a target it reads the embedding alone
        rows = self.model._block(self, anchor, self.slot, 16)  # type: ignore[arg-type]
        normed: Tensor = self.model.final_norm(rows)
        return normed


def config_of(s: Setting) -> DrafterConfig:
    """The 35B drafter's at its hidden size, and alike at others."""
    h, size = s.shape, min(128, s.shape.hidden // 2)
    layers, heads = max(2, min(6, h.layers // 4)), 2 * h.hidden // size
    return DrafterConfig(
        vocab_size=h.vocabulary, hidden_size=h.hidden, intermediate_size=3 * h.hidden,
        layer_types=(*("sliding_attention",) * (layers - 1), "full_attention"),
        num_attention_heads=heads, num_key_value_heads=heads // 4, head_dim=size, block_size=16,
        mask_token_id=h.vocabulary - 1, target_layer_ids=tuple(range(min(8, h.layers))),
        num_target_layers=h.layers, sliding_window=2 * h.hidden, rms_norm_eps=EPS,
    )  # fmt: skip


def random_draft(s: Setting) -> Draft:
    """Weights that keep a stream's size about as it is, and norms near 1."""
    model, h = Drafter(config_of(s), s.device, s.dtype), s.shape
    for weight in model.slots().values():
        if weight.ndim >= 2:
            weight.normal_(0.0, weight.shape[-1] ** -0.5, generator=s.generator)
        else:
            weight.normal_(1.0, 0.1, generator=s.generator)
    head = s.weight(h.vocabulary, h.hidden)
    return prepared(model, s.normal(h.vocabulary, h.hidden), head)


def prepared(model: Drafter, embedding: Tensor, head: Tensor) -> Draft:
    """With an empty context."""
    capacity = 4 * model.config.hidden_size
    model.prepare()
    model.set_context(capacity)
    state = DrafterState(model.config, capacity, device=model.device, dtype=model.dtype)
    return Draft(model, state.slot(), embedding, head)


def doubled(draft: Draft) -> Draft:
    """The same numbers in float64."""
    model = Drafter(draft.model.config, draft.model.device, torch.float64)
    for name, weight in model.slots().items():
        weight.copy_(draft.model.slots()[name])
    return prepared(model, draft.embedding.double(), draft.head)


def build(s: Setting, draft: Draft) -> DrafterPass:
    """A pass over the slot of a drafter."""
    weights = DrafterWeights.of(draft.model, draft.embedding, draft.head)
    buffers = DrafterBuffers.empty(draft.model.config, draft.slot, len(draft.head))
    return DrafterPass(draft.model, weights, draft.slot, buffers, early=s.early)


def lengths(p: DrafterPass, held: int, added: int) -> None:
    """Those of both passes."""
    values = torch.tensor([held, added, held + added, 16], dtype=torch.int32)
    p.buffers.lengths.all.copy_(values)


def check_drafter(s: Setting) -> None:
    """Context and block against the law in float64; repeated; and in another division."""
    ours = random_draft(s)
    p, exact = build(s, ours), doubled(ours)
    plain = replace(ours, slot=prepared(ours.model, ours.embedding, ours.head).slot)
    features, held = s.normal(32, ours.model.fc.shape[1]), 0
    for m in (16, 6, 1):
        rows = features[held : held + m]
        lengths(p, held, m)
        p.buffers.features[:m] = rows
        p.extend()
        plain.model.extend(rows, plain.slot)
        exact.model.extend(rows.double(), exact.slot)
        for name in ("full", "ring"):
            found, law = (getattr(d.slot, name)[..., held : held + m, :] for d in (ours, exact))
            compare(s, f"drafter's {name} context, m = {m}", found, law)
        held += m
    p.buffers.tokens[:1].fill_(5)
    p.propose(scored=True)
    law = exact.block(5)
    most = TIMES * float((plain.block(5).double() - law).norm() / law.norm())
    if s.dtype == torch.float32:
        most = max(most, 1e-5)  # two orders of the same sums, neither nearer
    compare(s, "drafter's block", ours.model.final_norm(p.buffers.x), law, most)
    whole = [t.clone() for t in p.buffers.answer]
    p.propose(scored=True)
    for name, a, b in zip(p.buffers.answer._fields, whole, p.buffers.answer, strict=True):
        same(s, f"drafter's {name} twice", a, b)
    _check_division(s, p, features[:16])


def _check_division(s: Setting, p: DrafterPass, features: Tensor) -> None:
    """Sixteen tokens in four parts, and at once."""
    held = 0
    for rows in features.split((5, 1, 7, 3)):
        lengths(p, held, len(rows))
        p.buffers.features[: len(rows)] = rows
        p.extend()
        held += len(rows)
    caches = {"full": p.slot.full[..., :16, :], "ring": p.slot.ring[..., :16, :]}
    parts = {name: cache.clone() for name, cache in caches.items()}
    lengths(p, 0, 16)
    p.buffers.features.copy_(features)
    p.extend()
    for name, cache in caches.items():
        same(s, f"drafter's {name} context in four parts", parts[name], cache)


def nbytes(p: DrafterPass, position: int) -> tuple[int, int]:
    """Bytes that adding to the context and a proposal must move."""
    w, total = p.weights, p.weights.head.nbytes
    for layer in w.layers:
        total += layer.w_in.nbytes + layer.w_out.nbytes + layer.gate_up.nbytes + layer.down.nbytes
    for cache in (p.slot.full, p.slot.ring):
        total += cache[..., :position, :].nbytes
    return w.context.fc.nbytes + w.context.w.nbytes, total


def time_drafter(s: Setting) -> None:
    """Both passes at several lengths, and their products."""
    p = build(s, random_draft(s))
    for cache in (p.slot.full, p.slot.ring):
        cache.normal_(generator=s.generator)
    p.buffers.features.normal_(generator=s.generator)
    for m in ADDED:
        lengths(p, 10, m)
        s.timed(f"drafter's context, m = {m}", "", [p.extend], nbytes(p, 0)[0])

    def both() -> None:
        p.extend()
        p.propose(scored=True)

    scored, plain = partial(p.propose, scored=True), partial(p.propose, scored=False)
    for position in (s.shape.hidden // 4, 2 * s.shape.hidden):
        lengths(p, position - 6, 6)
        extended, proposed = nbytes(p, position)
        for config, call in (("", plain), ("scored", scored)):
            s.timed(f"drafter, P = {position}", config, [call], proposed)
        s.timed(f"drafter and context, P = {position}", "scored", [both], extended + proposed)
    w = p.weights
    time_fc(s, w.context.fc.shape[1])
    time_mlp(s, *w.layers[0].gate_up.shape)
    time_joint(s, {"joint": len(w.layers[0].w_in), "keys and values": len(w.context.w)})
