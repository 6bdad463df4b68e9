"""Prefix reuse as an engine and its answers see it: where a prompt goes on from, what is kept."""

from __future__ import annotations

from collections.abc import Iterator
from collections.abc import Sequence as Many
from typing import Literal, get_args

from hybridspec.core import prefill_chunk
from hybridspec.errors import OptionError
from hybridspec.kernels.support import once
from hybridspec.memory import is_full
from hybridspec.model.target import Target
from hybridspec.runtime.prefix.cuts import Cuts
from hybridspec.runtime.prefix.parts import Point, Rows, restore
from hybridspec.runtime.prefix.store import Node, Store
from hybridspec.runtime.round import Rounds, Sequence
from hybridspec.runtime.state import TargetSlot

Mode = Literal["exact", "near", "none"]
MODES: tuple[Mode, ...] = get_args(Mode)


class Prefixes:
    """What one engine keeps. Without memory for it, prompts are cut by length alone."""

    def __init__(self, target: Target, slot: TargetSlot, memory: int, marks: Many[int]) -> None:
        """
        Args:
            slot: a slot of the engine, for its sizes.
            memory: bytes to keep at most; 0 keeps nothing.
            marks: tokens that open a message in a prompt.

        Raises:
            OptionError: less than a single state takes.
        """
        self._target, self.store = target, Store(memory) if memory else None
        least = Point.bytes_of(slot)
        if 0 < memory < least:
            raise OptionError(
                "prefix_memory",
                f"is {memory:,} bytes, and one state of this model takes {least:,}. Give several "
                "times that, or 0 to keep nothing.",
            )
        self.cuts = Cuts(prefill_chunk(target.device, target.dtype))
        if memory:
            self.cuts = Cuts.by_device(target.device, target.dtype, marks)

    def answer(self, target: Target, mode: Mode) -> Reuse:
        """For one answer. target: the engine's at present; no other takes or leaves states."""
        store = self.store if mode != "none" and target is self._target else None
        return Reuse(store, self.cuts, near=mode == "near")


class Reuse:
    """One answer's part: `parts` leads the prompt's passes, `ended` comes at its end.

    `cached` counts the prompt's tokens that were not run. Only whole passes and whole answers are
    kept: what ends in between leaves nothing.
    """

    def __init__(self, store: Store | None, cuts: Cuts, *, near: bool = False) -> None:
        """near: also go on from, and keep, states that no prompt would reach by itself."""
        self._store, self._cuts, self._near = store, cuts, near
        self._node: Node | None = None if store is None else store.root  # what slots go on from
        self.cached = 0

    def parts(self, rounds: Rounds, sequence: Sequence, prompt: Many[int]) -> Iterator[slice]:
        """The prompt's passes, of which each is to be run before the next is asked for."""
        cuts = self._cuts.of(prompt)
        start = self.cached = self._resume(rounds, sequence, prompt, cuts)
        for stop in (cut for cut in cuts if cut > start):
            yield slice(start, stop)
            rounds.catch_up(sequence)  # here as there, or the drafter's rounding would differ
            self._keep(rounds, sequence, prompt[:stop], exact=True)
            start = stop
        yield slice(start, len(prompt))

    def ended(self, rounds: Rounds, sequence: Sequence, tokens: Many[int]) -> None:
        """An answer has ended by itself. tokens: the prompt and all of it; the last is no part of
        the state."""
        if self._near and sequence.slot.length == len(tokens) - 1:
            rounds.catch_up(sequence)
            self._keep(rounds, sequence, tokens[:-1], exact=False)

    def _resume(
        self, rounds: Rounds, sequence: Sequence, prompt: Many[int], cuts: Many[int]
    ) -> int:
        if self._store is None:
            return 0
        drafted = rounds.drafter is not None
        node = self._store.find(prompt, None if self._near else set(cuts), drafted=drafted)
        if node is None or node.point is None:
            return 0
        self._node = node
        spans = [(n.start, n.rows) for n in node.path() if n.rows is not None]
        return restore(sequence, node.point, spans, drafted=drafted)

    def _keep(self, rounds: Rounds, sequence: Sequence, ids: Many[int], *, exact: bool) -> None:
        """Keep the state behind `ids`, which are all that the slots hold."""
        store, parent = self._store, self._node
        if store is None or parent is None or len(ids) == parent.stop:
            return
        start, drafted = parent.stop, parent.drafted and rounds.drafter is not None
        slot = sequence.slot
        try:
            self._node = store.add(
                parent,
                ids[start:],
                (Rows.bytes_of(sequence, start, drafted=drafted), Point.bytes_of(slot)),
                (lambda: Rows.of(sequence, start, drafted=drafted), lambda: Point.of(slot)),
                exact=exact and parent.exact,
                drafted=drafted,
            )
        except (RuntimeError, MemoryError) as error:
            if not is_full(error):
                raise
            store.clear()
            self._node = None
            once("The device has no memory left for kept prefixes; they were dropped.")
