"""Answers of systems in turn, each from the very state that one prompt has left."""

from __future__ import annotations

import time
from dataclasses import dataclass

import torch
from torch import Tensor

from hybridspec.bench.scripted.executor import Executor
from hybridspec.bench.scripted.model import Pair
from hybridspec.core import RoundStats, SamplingParams, prefill_chunk
from hybridspec.errors import HybridSpecError
from hybridspec.runtime.check import committed
from hybridspec.runtime.device.snapshot import Snapshot
from hybridspec.runtime.round import Sequence
from hybridspec.runtime.state import DrafterSlot, DrafterState, TargetSlot, TargetState
from hybridspec.systems import System
from hybridspec.text.stop import OutputStream


@dataclass(frozen=True)
class Answer:
    """What a system said.

    Attributes:
        tokens: emitted after the prompt's own first token.
        rounds: in order.
        seconds: from the first round's begin to the last one's end.
        state: what is committed, as views of the sequence's memory: until the next answer.
    """

    tokens: tuple[int, ...]
    rounds: tuple[RoundStats, ...]
    seconds: float
    state: dict[str, Tensor]


class Answers:
    """One sequence's memory. `prompt`, then any number of answers to it."""

    def __init__(self, pair: Pair, executor: Executor, capacity: int) -> None:
        """capacity: as the executor's."""
        self.pair, self.executor = pair, executor
        target, drafter = executor.target, executor.drafter
        device, dtype = target.device, target.dtype
        self._state = TargetState(
            target.config, capacity, device=device, dtype=dtype, joint=executor.joint
        )
        self._drafter_state = DrafterState(drafter.config, capacity, device=device, dtype=dtype)
        self._taps = drafter.config.target_layer_ids
        self._behind: Snapshot | None = None
        self.length, self.anchor = 0, -1

    @torch.inference_mode()
    def prompt(self, place: int, tokens: int) -> None:
        """Run so many tokens of the cycle from a place on, and keep the state behind them.

        Raises:
            HybridSpecError: the target does not go on as it should.
        """
        target, ids = self.executor.target, self.pair.cycle.run(place, tokens + 1)
        slot, drafter_slot = self._state.slot(0, self._taps), self._drafter_state.slot()
        for part in ids[:-1].split(prefill_chunk(target.device, target.dtype)):
            out = target.prefill(part, slot)
            assert out.features is not None
            self.executor.drafter.extend(out.features, drafter_slot)
        self.length, self.anchor = tokens, int(out.logits[-1].argmax())
        if self.anchor != int(ids[-1]):
            raise HybridSpecError(
                f"After {tokens} tokens of the cycle the target says {self.anchor}; expected "
                f"{int(ids[-1])}. Its weights do not follow the cycle, or its prefill is wrong."
            )
        self._behind = Snapshot(slot, drafter_slot)
        self._behind.take()

    @torch.inference_mode()
    def answer(self, system: System, tokens: int, *, forget: bool = False) -> Answer:
        """So many tokens by a system; the script says where in a trace they begin."""
        sequence = self._sequence(system, tokens)
        output = OutputStream(None, sequence.params, (), tokens)
        rounds = self.executor.rounds(system, forget=forget)
        rounds.begin()
        said: list[int] = []
        stats: list[RoundStats] = []
        self._wait()
        began = time.perf_counter()
        while len(said) < tokens:
            _, kept, figures = rounds.run(sequence, output, tokens - len(said))
            said += kept
            stats.append(figures)
        self._wait()
        seconds = time.perf_counter() - began
        return Answer(tuple(said), tuple(stats), seconds, committed(sequence.slot))

    def slots(self, taps: bool = True) -> tuple[TargetSlot, DrafterSlot]:
        """The memory as the prompt has left it. taps: whether passes return features."""
        assert self._behind is not None, "no prompt has run"
        slot = self._state.slot(0, self._taps if taps else ())
        drafter_slot = self._drafter_state.slot()
        self._behind.restore()
        slot.length = drafter_slot.length = self.length
        return slot, drafter_slot

    @property
    def nbytes(self) -> int:
        """Bytes of the sequence's memory."""
        return self._state.nbytes + self._drafter_state.nbytes

    def _sequence(self, system: System, tokens: int) -> Sequence:
        params = SamplingParams(max_tokens=tokens, ignore_eos=True)
        return Sequence(*self.slots(system.drafts), params, 0, self.anchor)

    def _wait(self) -> None:
        if self.executor.target.device.type == "cuda":
            torch.cuda.synchronize()
