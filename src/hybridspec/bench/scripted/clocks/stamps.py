"""Times that the card itself writes, in the order in which it comes by them."""

# Triton has no types.
# mypy: disable-error-code="import-untyped,untyped-decorator"

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor
from triton.language.extra.cuda import globaltimer

from hybridspec.errors import HybridSpecError
from hybridspec.runtime.device.round import Round
from hybridspec.runtime.graph.recorder import Work, name_of

ROOM = 1 << 15  # stamps between two readings: an answer of thousands of rounds
CHAIN = 64  # stamps in a row that say what one takes


@triton.jit
def _stamp(times, count, ROOM: tl.constexpr):  # type: ignore[no-untyped-def]
    now = globaltimer()
    at = tl.load(count)
    tl.store(times + at, now, mask=at < ROOM)
    tl.store(count, at + 1)


def stamp(times: Tensor, count: Tensor) -> None:
    """times [ROOM] int64 [count [] int32] becomes the card's time in ns, and count one more."""
    _stamp[(1,)](times, count, ROOM, num_warps=1)


@dataclass(frozen=True, slots=True)
class Piece:
    """Launches between two stamps, in nanoseconds of one clock. name: empty where all are alike."""

    begin: int
    end: int
    name: str = ""


class Stamps:
    """A list of times on a device: %globaltimer in nanoseconds, on a CPU the host's clock.

    A stamp is a kernel of one warp, never launched early: it begins when all before it has ended.
    """

    def __init__(self, device: torch.device) -> None:
        with torch.inference_mode(False):
            self._times = torch.zeros(ROOM, dtype=torch.int64, device=device)
            self._count = torch.zeros((), dtype=torch.int32, device=device)
        self._names: list[str] = []

    def mark(self) -> None:
        """Note the time, on the current stream."""
        if self._times.is_cuda:
            stamp(self._times, self._count)
            return
        self._times[int(self._count) % ROOM] = time.perf_counter_ns()
        self._count += 1

    def around(self, step: Work, recorded: Callable[[Work], Work]) -> Work:
        """A step with a stamp at both its ends, all of it recorded. Its calls are kept by name."""

        def stamped() -> None:
            self.mark()
            step()
            self.mark()

        call, name = recorded(stamped), name_of(step)

        def called() -> None:
            self._names.append(name)
            call()

        return called

    def clear(self) -> None:
        """Forget all; nothing may be under way."""
        self._count.zero_()
        self._names.clear()

    def pieces(self) -> list[Piece]:
        """What lies between a stamp and the next, two by two; waits for the device.

        Raises:
            HybridSpecError: more stamps than there is room for, or one without its other.
        """
        count = int(self._count)
        names = self._names or [""] * (count // 2)
        if count > ROOM or count != 2 * len(names):
            raise HybridSpecError(
                f"The device wrote {count} times; expected two for each of {len(names)} pieces, "
                f"at most {ROOM}. Ask for shorter answers, or report it."
            )
        times = self._times[:count].tolist()
        return [*map(Piece, times[::2], times[1::2], names)]

    def chain(self) -> list[int]:
        """Times of CHAIN stamps in a row that one graph holds; where there is no GPU, of as many
        calls."""
        self.clear()
        self.mark()

        def many() -> None:
            for _ in range(CHAIN):
                self.mark()

        if self._times.is_cuda:
            torch.cuda.synchronize()
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                many()
            self.clear()
            graph.replay()
            torch.cuda.synchronize()
        else:
            self.clear()
            many()
        times: list[int] = self._times[:CHAIN].tolist()
        self.clear()
        return times


class StampedRound(Round):
    """A round with a stamp before its first kernel and one behind its last."""

    def __init__(self, stamps: Stamps, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._stamps = stamps

    def draft(self) -> None:
        """As a round's, behind a stamp."""
        self._stamps.mark()
        super().draft()

    def end(self) -> None:
        """As a round's, and a stamp."""
        super().end()
        self._stamps.mark()


def form_with(stamps: Stamps) -> Callable[..., Round]:
    """Makes rounds that write into one list."""
    return partial(StampedRound, stamps)


def by_round(pieces: Sequence[Piece], last: str = "") -> list[list[Piece]]:
    """Pieces of each round, which ends with one of that name."""
    rounds: list[list[Piece]] = [[]]
    for piece in pieces:
        rounds[-1].append(piece)
        if piece.name == last:
            rounds.append([])
    return [each for each in rounds if each]
