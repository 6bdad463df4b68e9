"""The way out of a run: a ring in pinned memory that kernels write and the host polls.

A round has a row of 64-bit words: one with its figures, and one a token. The high half of a word is
the round's number, counted from 1 since the answer began, and its low half the value. A word is
stored and loaded whole, so the host has a value iff it finds the number that it waits for: neither
the order in which words arrive nor what an earlier turn of the ring has left matters.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from hybridspec.kernels.linear.config import ROWS

ABORTED = 4  # a value of `done` beside those of `kernels/accept`
FIELD = 6  # bits of a figure in a round's first word: w0, w, A, m, done, lowest first


@dataclass(frozen=True, slots=True)
class Record:
    """One round as the host reads it: w0, w, A, why the answer ended with it (0: it goes on), and
    the m tokens that were emitted."""

    w0: int
    w: int
    accepted: int
    done: int
    tokens: tuple[int, ...]


class Ring:
    """Rows for some rounds, and a flag by which the host asks for an end.

    words [rounds, 1 + 16] int64 and abort [1] int32 lie in pinned memory where kernels run on a
    GPU. Who launches must not let the device be more than `rounds` ahead of what has been read.
    """

    def __init__(self, rounds: int, device: torch.device) -> None:
        pinned = device.type == "cuda"
        self.rounds = rounds
        self.words = torch.zeros(rounds, 1 + ROWS, dtype=torch.int64, pin_memory=pinned)
        self.abort = torch.zeros(1, dtype=torch.int32, pin_memory=pinned)
        self._seen, self._flag = self.words.numpy(), self.abort.numpy()

    def clear(self) -> None:
        """Forget all rounds. Nothing may be running."""
        self._seen[:] = 0
        self._flag[:] = 0

    def ask_to_end(self) -> None:
        """The round under way, or the one after it, is the last."""
        self._flag[0] = 1

    def read(self, number: int) -> Record | None:
        """The round of that number, counted from 1; None while any word of it is missing."""
        row = self._seen[number % self.rounds]
        figures = _value(int(row[0]), number)
        if figures is None:
            return None
        w0, w, accepted, kept, done = (figures >> FIELD * i & (1 << FIELD) - 1 for i in range(5))
        tokens = [_value(int(row[1 + i]), number) for i in range(kept)]
        whole = tuple(token for token in tokens if token is not None)
        return Record(w0, w, accepted, done, whole) if len(whole) == kept else None


def _value(word: int, number: int) -> int | None:
    """The low half of a word that carries this number."""
    return word & 0xFFFFFFFF if word >> 32 == number else None
