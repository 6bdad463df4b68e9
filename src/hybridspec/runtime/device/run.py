"""A run: rounds over rounds on the device, while the host reads what they emit.

Rounds come in slices, a launch each. A slice ends with the answer, at the host's request, or after
so many rounds; the next one is queued before that, as soon as the ring has room for all of it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, field

import torch
from torch import Tensor

from hybridspec.errors import HybridSpecError
from hybridspec.kernels.accept.accept import stop_table
from hybridspec.kernels.accept.naive import STOP
from hybridspec.runtime.device.launchers import describe
from hybridspec.runtime.device.memory import STOPS
from hybridspec.runtime.device.ring import ABORTED, Record
from hybridspec.runtime.device.round import Round
from hybridspec.runtime.device.signals import lose
from hybridspec.runtime.device.snapshot import Snapshot
from hybridspec.runtime.graph import Eager, Figures, record
from hybridspec.runtime.launching import Launcher
from hybridspec.runtime.round import Sequence

PAUSE = 2e-5  # seconds between two looks at the ring: far below a round, and others may run


@dataclass(slots=True)
class _Slice:
    """A launch: where its first round began, the tokens then pending (`TargetSlot.pending`), and
    the rounds of it that were read."""

    position: int
    anchor: int
    pending: int
    records: list[Record] = field(default_factory=list)


class Run:
    """One system's rounds over one sequence's memory; it serves answer after answer.

    The host's part of an answer: `begin`, then `next` a round, and at its end nothing, or `rewind`
    where the host ends it inside or before what the device has done, or `halt`.
    """

    def __init__(self, round_: Round, launcher: Launcher) -> None:
        """Nothing is recorded before the first answer. A launch may run half as many rounds as the
        ring has rows, an even number or one, so that one can be queued while the one before it is
        read."""
        self.round, self.ring = round_, round_.ring
        self.most = max(1, self.ring.rounds // 2)
        self._launcher = launcher
        self._launch: Callable[[], None] | None = None
        self.figures: Figures | None = None  # of its graph, once it is recorded
        self._snapshots: list[Snapshot] = []
        self._end: torch.cuda.Event | None = None
        self._launched = self._read = 0
        self._mends, self._done = False, ABORTED

    def begin(self, sequence: Sequence, stops: Collection[int], room: int) -> None:
        """An answer of at most `room` >= 1 tokens after the sequence's anchor. The slots hold all
        that comes before it, the drafter's too.

        Args:
            stops: token ids that end it, at most STOPS.
        """
        self.halt()
        self.round.target.recurrence.begin(sequence.slot)
        place = sequence.slot.length
        if self._launch is None:
            self._launch = self._recorded(place)
        self._mends = bool(sequence.params.stop)
        if self._mends and not self._snapshots:
            self._snapshots = [self.round.snapshot() for _ in range(2)]
        memory = self.round.memory
        memory.numbers.set(position=place, place=place, block=self.round.rows(room), room=room)
        memory.request.set(sequence.params, sequence.seed, place + 1)
        memory.stops.copy_(stop_table(list(stops), STOPS, "cpu"))
        self.round.anchor.fill_(sequence.anchor)
        self._sequence = sequence
        self._launched = self._read = self._done = 0

    def next(self) -> Record:
        """The next round, as soon as it has ended; the sequence's own numbers follow. Not after
        one that is done.

        Raises:
            HybridSpecError: a launch ended without it.
        """
        assert not self._done, "the answer has ended"
        self._launch_ahead()
        record = self._await()
        self._note(record)
        return record

    def rewind(self, kept: int) -> None:
        """The answer ended with the first `kept` >= 1 tokens of the last round that was read, which
        a stop string in the text said: leave the state of exactly that.

        From the state at the launch's start its rounds are replayed, each as it was cut, so that
        no bit can differ.
        """
        self.halt()
        self._snapshots[(self._read - 1) // self.most % 2].restore()
        self._return(self._slice)
        *whole, last = self._slice.records
        for tokens in (*(r.tokens for r in whole), last.tokens[:kept]):
            self._replay((self._sequence.anchor, *tokens[:-1]))
            self._follow(tokens)

    def halt(self) -> None:
        """Wait until nothing runs, which is within two rounds; the ring is as at the start."""
        if self._end is not None:
            self.ring.ask_to_end()
            try:
                while not self._end.query():  # and no call that an interrupt would not end
                    time.sleep(PAUSE)
            except Exception:  # a kernel failed: there is nothing left to wait for
                self._end = None
                raise
            self._end = None
        self.ring.clear()
        self._done = self._done or ABORTED

    def _recorded(self, place: int) -> Callable[[], None]:
        """What launches a slice. Kernels are compiled by a round of an answer that has ended, which
        keeps nothing."""
        describes, memory = describe(self.round, self.most, self._launcher), self.round.memory
        if self._launcher == "eager":
            return lambda: describes(Eager())
        device = memory.numbers.all.device
        if device.type == "cuda":
            memory.numbers.set(
                position=place, place=place, block=self.round.rows(1), room=1, done=STOP
            )
            lose(memory.numbers)  # a body of its own in a switch
            self.round.whole()
            describes(Eager())
            torch.cuda.synchronize(device)
            self.ring.clear()
        made = record(describes, device)
        self.figures = made.figures
        return made.launch

    def _launch_ahead(self) -> None:
        assert self._launch is not None
        while (self._launched + 1) * self.most - self._read <= self.ring.rounds:
            if self._mends:
                self._snapshots[self._launched % 2].take()
            device = self.round.memory.numbers.all.device
            if device.type == "cuda":
                # Recorded twice: before, so that a thread new to CUDA has a context and an
                # interrupt finds something to wait for; and behind the launch.
                self._end = torch.cuda.Event()
                self._end.record(torch.cuda.current_stream(device))
            try:
                self._launch()
                self._launched += 1
            finally:
                if self._end is not None:
                    self._end.record(torch.cuda.current_stream(device))

    def _await(self) -> Record:
        number = self._read + 1
        while (record := self.ring.read(number)) is None:
            if self._end is None or self._end.query():  # raises where a kernel failed
                record = self.ring.read(number)
                break
            time.sleep(PAUSE)
        if record is None:
            raise HybridSpecError(
                f"The device ended a launch without round {number}. This is a fault of the engine: "
                "please report it with the prompt."
            )
        return record

    def _note(self, record: Record) -> None:
        sequence = self._sequence
        if self._read % self.most == 0:
            self._slice = _Slice(sequence.slot.length, sequence.anchor, sequence.slot.pending)
        self._slice.records.append(record)
        self._read += 1
        self._done = record.done
        self._follow(record.tokens)

    def _follow(self, tokens: tuple[int, ...]) -> None:
        """What the device has done, in the host's own account."""
        sequence, m = self._sequence, len(tokens)
        if m:
            sequence.anchor = tokens[-1]
        sequence.slot.length += m
        self.round.target.recurrence.committed(sequence.slot, m)
        if self.round.drafter is not None and sequence.drafter_slot is not None:
            sequence.drafter_slot.length += m

    def _return(self, begun: _Slice) -> None:
        """That account, as it was where a slice began."""
        sequence = self._sequence
        sequence.anchor, sequence.slot.pending = begun.anchor, begun.pending
        sequence.slot.length = begun.position
        if self.round.drafter is not None and sequence.drafter_slot is not None:
            sequence.drafter_slot.length = begun.position

    def _replay(self, inputs: tuple[int, ...]) -> None:
        """Run and commit these tokens."""
        m, place, memory = len(inputs), self._sequence.slot.length, self.round.memory
        memory.numbers.set(position=place, looked=m, verified=m, kept=m, held=place, added=m)
        tokens: Tensor = memory.answer.tokens[:m]
        tokens.copy_(torch.tensor(inputs))
        self.round.stage0()
        self.round.stage1()
        self.round.keep()
