"""The rounds of an answer as `stream.py` takes them, out of a run on the device."""

from __future__ import annotations

import torch

from hybridspec.core import RoundStats
from hybridspec.errors import HybridSpecError
from hybridspec.kernels.accept.naive import DAMAGED
from hybridspec.kernels.sampling.sample import sample
from hybridspec.model.target import PassOutput
from hybridspec.runtime.device.ring import Record
from hybridspec.runtime.device.run import Run
from hybridspec.runtime.device.runs import Runs
from hybridspec.runtime.round import Rounds, Sequence
from hybridspec.runtime.sampling import target_tokens
from hybridspec.systems import System
from hybridspec.text.stop import Emission, OutputStream


class DeviceRounds(Rounds):
    """As `Rounds`, of one answer, for a system that `runs` do not refuse."""

    def __init__(self, runs: Runs, system: System) -> None:
        super().__init__(runs.target, runs.drafter, system)
        self._runs = runs
        self._run: Run | None = None

    def first_token(self, sequence: Sequence, out: PassOutput) -> int:
        """As there; drawn by the kernel that draws the others, for one answer must come from one
        sampler."""
        if sequence.params.greedy:
            return super().first_token(sequence, out)
        memory, place = self._runs.memory, sequence.slot.length
        positions = torch.tensor([place], device=self.target.device)
        memory.numbers.set(verified=1)
        memory.request.set(sequence.params, sequence.seed, place)
        logits = out.logits.expand(len(memory.tokens), -1)  # a row for each that a pass may have
        sample(logits, memory.numbers.verified, memory.request, memory.tokens, memory.bad,
               memory.scratch)  # fmt: skip
        if int(memory.bad[0]):
            target_tokens(out.logits, positions, sequence.params, sequence.seed)  # says what it is
        sequence.anchor = int(memory.tokens[0])
        return sequence.anchor

    def run(
        self, sequence: Sequence, output: OutputStream, remaining: int
    ) -> tuple[Emission, tuple[int, ...], RoundStats]:
        """As there, for a round that the device may have run long ago."""
        try:
            return self._next(sequence, output, remaining)
        except BaseException:
            self.halt()
            raise

    def halt(self) -> None:
        """Nothing runs on the device after it."""
        self._runs.halt()
        self._run = None

    def _next(
        self, sequence: Sequence, output: OutputStream, remaining: int
    ) -> tuple[Emission, tuple[int, ...], RoundStats]:
        if self._run is None:
            self._run = self._begun(sequence, output, remaining)
        record = self._run.next()
        if record.done == DAMAGED:
            self._complain(self._run, record, sequence)
        emission = output.push(record.tokens)
        m = emission.kept
        stops_here = m == len(record.tokens) and bool(record.done)
        if emission.finish_reason is not None and not stops_here:
            self._run.rewind(m)
        return emission, record.tokens[:m], RoundStats(record.w, record.accepted, m, record.w0)

    def _begun(self, sequence: Sequence, output: OutputStream, remaining: int) -> Run:
        self.catch_up(sequence)
        run = self._runs.of(self.system, sequence)
        run.begin(sequence, output.stop_ids, remaining)
        return run

    def _complain(self, run: Run, record: Record, sequence: Sequence) -> None:
        """Say why a round could keep nothing.

        Raises:
            HybridSpecError: always.
        """
        if int(run.round.memory.numbers.damaged):
            raise HybridSpecError(
                "A round was to run a number of inputs for which there is no recording. This is a "
                "fault of the engine: please report it with the prompt."
            )
        logits = run.round.target.buffers.logits[: record.w]
        first = sequence.slot.length + 1
        positions = torch.arange(first, first + record.w, device=logits.device)
        target_tokens(logits, positions, sequence.params, sequence.seed)
        raise HybridSpecError(
            "The device found logits without a largest one, and the host does not. This is a fault "
            "of the engine: please report it with the prompt."
        )
