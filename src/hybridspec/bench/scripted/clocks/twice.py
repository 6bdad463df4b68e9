"""A target's pass in which one component is done twice, with the same results.

The other time comes first and takes another layer's weights and states, so that it finds no more of
them in the cache than the real one does. What it writes is written over, or goes to spare memory.
So a pass with a component twice differs from a plain one by that component's time alone, launched
as it is in a pass.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, TypeVar, cast

import torch
from torch import Tensor

from hybridspec.kernels.attention.prepare import Norms, Tables
from hybridspec.kernels.forward.buffers import Buffers
from hybridspec.kernels.forward.gdn import Recurrence, recurrence
from hybridspec.kernels.forward.steps import Steps
from hybridspec.kernels.forward.target import TargetPass
from hybridspec.kernels.forward.weights import TargetWeights
from hybridspec.kernels.gdn.fused import Gates
from hybridspec.kernels.linear.norm import Next, Normed
from hybridspec.kernels.moe.naive import Weights
from hybridspec.runtime.launched import LaunchedTarget
from hybridspec.runtime.state import TargetSlot, TargetState, W

T = TypeVar("T")
GDN, ATTENTION, MOE, HEAD = "gdn", "attention", "moe", "head"
GDN_PROJECTIONS, ATTENTION_PROJECTIONS = "gdn projections", "attention projections"
# What can be done twice.
TWICE = (GDN, GDN_PROJECTIONS, ATTENTION, ATTENTION_PROJECTIONS, MOE, HEAD)


class TwicePass(TargetPass):
    """Verifies as a `TargetPass` does, with `twice`, one of TWICE or "", at the time of launching
    done once more. Commits go to the states of a spare slot, so that every pass is from the same
    state. The slot's factors of its last pass mean nothing where `gdn` was done twice."""

    def __init__(
        self, target: LaunchedTarget, slot: TargetSlot, buffers: Buffers, *,
        early: bool | None = None,
    ) -> None:  # fmt: skip
        """The slot must have joint columns; it is left as it is but for what a pass writes."""
        early = target.early if early is None else early
        self.commits = True
        super().__init__(target, target.weights, slot, buffers, early=early)
        spare = _spare(target)
        self.spare = recurrence(target.config, spare, "exact", early=early)
        self.again = Again(self, target)
        self.steps = self.again
        self.recurrence = cast(Recurrence, _TwiceRecurrence(self.recurrence, self.again))

    def commit(self) -> None:
        """Of the spare slot's states; nothing where `commits` is off."""
        if self.commits:
            self.spare.commit(self.buffers.lengths.kept)


class Again(Steps):
    """Steps, of which those of one component are done twice."""

    def __init__(self, run: TargetPass, target: LaunchedTarget) -> None:
        b, c = run.buffers, target.config
        super().__init__(b, c.rms_norm_eps, early=run.early)
        self.twice = ""
        self.counts: list[Tensor] | None = None  # distinct experts of a layer, where they are kept
        x, normed = torch.zeros_like(b.x), Normed.empty(c.hidden_size, target.dtype, target.device)
        self._to, self._normed = x, normed
        self._spare = Steps(replace(b, x=x), c.rms_norm_eps, early=run.early)
        self._others = _others(target.weights, run.slot)
        self._kinds = _kinds(target.weights)

    def other(self, thing: T) -> T:
        """The same of another layer."""
        return cast(T, self._others[_key(thing)])

    def normed(self, name: str, w: Tensor, y: Tensor, length: Tensor) -> None:
        """As there."""
        if self.twice and self.twice == self._kinds.get(_key(w)):
            super().normed(name, self.other(w), y, length)
        super().normed(name, w, y, length)

    def gated(self, w: Tensor, x: Tensor, after: Next, length: Tensor) -> None:
        """As there."""
        if self.twice == GDN_PROJECTIONS:
            self._spare.gated(self.other(w), x, self._next(after), length)
        super().gated(w, x, after, length)

    def attended(self, w: Tensor, x: Tensor, after: Next, length: Tensor) -> None:
        """As there."""
        if self.twice == ATTENTION_PROJECTIONS:
            self._spare.attended(self.other(w), x, self._next(after), length)
        super().attended(w, x, after, length)

    def attend(
        self, qk: Norms, tables: Tables, keys: Tensor, values: Tensor, length: Tensor
    ) -> None:
        """As there."""
        if self.twice == ATTENTION:
            super().attend(qk, tables, self.other(keys), self.other(values), length)
        super().attend(qk, tables, keys, values, length)

    def route(self, w: Weights, length: Tensor) -> None:
        """As there."""
        if self.twice == MOE:
            super().route(self.other(w), length)
        super().route(w, length)
        if self.counts is not None:
            self.show_choice(w, length)
            self.counts.append(self.buffers.routed.count.clone())

    def experts(self, w: Weights, x: Tensor, y: Tensor, after: Next, length: Tensor) -> None:
        """As there; both times the experts that this layer's router chose."""
        if self.twice == MOE:
            super().experts(self.other(w), x, self._to, self._next(after), length)
        super().experts(w, x, y, after, length)

    def _next(self, after: Next) -> Next:
        """The norm that is left nowhere."""
        return Next(after.factor, self._normed)


class _TwiceRecurrence:
    """A recurrence whose verifications may be done twice."""

    def __init__(self, inner: Recurrence, again: Again) -> None:
        self._inner, self._again = inner, again

    def __getattr__(self, name: str) -> object:
        return getattr(self._inner, name)

    def verify(
        self, place: int, gates: Gates, gated: Tensor, squares: Tensor, length: Tensor
    ) -> None:
        """As there; the other time another layer's columns and states."""
        if self._again.twice == GDN:
            there = other_of(place, len(self._inner.joint))
            self._inner.verify(there, gates, gated, squares, length)
        self._inner.verify(place, gates, gated, squares, length)


def other_of(i: int, count: int) -> int:
    """Another of so many, as far away as there is."""
    return (i + count // 2) % count


def _key(thing: Any) -> int:
    """Where a tensor lies, or a set of weights' first."""
    return int(thing.data_ptr() if isinstance(thing, Tensor) else thing[0].data_ptr())


def _others(weights: TargetWeights, slot: TargetSlot) -> Mapping[int, Any]:
    """Every weight and cache of keys or values to the same of another layer of its kind."""
    gdn = [layer for layer in weights.layers if layer.gates is not None]
    attention = [layer for layer in weights.layers if layer.gates is None]
    alike: list[list[Any]] = [[weights.head], [layer.experts for layer in weights.layers]]
    for kind in (gdn, attention):
        alike += [[layer.w_in for layer in kind], [layer.w_out for layer in kind]]
    alike += [[*slot.keys], [*slot.values]]
    return {
        _key(thing): things[other_of(i, len(things))]
        for things in alike
        for i, thing in enumerate(things)
    }


def _kinds(weights: TargetWeights) -> dict[int, str]:
    """The components of those weights that a norm's product may be with."""
    found = {_key(weights.head): HEAD}
    for layer in weights.layers:
        found[_key(layer.w_in)] = ATTENTION_PROJECTIONS if layer.gates is None else GDN_PROJECTIONS
    return found


def _spare(target: LaunchedTarget) -> TargetSlot:
    """A slot with random states and factors, as small as it can be."""
    slot = TargetState(
        target.config, W, device=target.device, dtype=target.dtype, joint=True
    ).slot()  # fmt: skip
    for part in (slot.checkpoint, slot.z, slot.k):
        part.normal_(0.0, 0.1)
    assert slot.alpha is not None
    slot.alpha.fill_(0.9)
    return slot
