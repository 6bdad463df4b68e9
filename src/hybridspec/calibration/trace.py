"""A dense trace: at every position of plain decoding's answers, what a round from there would see.

Positions are those of plain decoding, so the trace can replay any policy's walk: a round at
position t that verifies w inputs accepts min(A_D, w - 1) drafts and goes on at t + that + 1.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import dataclass, fields
from itertools import pairwise
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from hybridspec.errors import HybridSpecError


class CalibrationError(HybridSpecError):
    """The data do not suffice for a fit, or are damaged."""


@dataclass(frozen=True)
class Trace:
    """N positions of several answers, end to end.

    Attributes:
        prompt: [N] int32, which prompt's answer; the positions of one lie together, in order.
        left: [N] int32, tokens of the answer that follow this position's anchor.
        confidence: [N, D] float32, top-1 probabilities of the proposal block.
        entropy: [N, D] float32, nats.
        accepted: [N] int16, A_D: leading drafts that equal the target's tokens, never cut.
        experts: [N, L, W, k] unsigned, the experts of every input of a w = W verification in every
            mixture-of-experts layer.
    """

    prompt: NDArray[np.int32]
    left: NDArray[np.int32]
    confidence: NDArray[np.float32]
    entropy: NDArray[np.float32]
    accepted: NDArray[np.int16]
    experts: NDArray[np.uint16]

    def __len__(self) -> int:
        return len(self.prompt)

    @property
    def drafts(self) -> int:
        """D."""
        return int(self.confidence.shape[1])

    @property
    def whole(self) -> NDArray[np.bool_]:
        """[N] rounds that neither an end of the text nor a limit cuts short."""
        mask: NDArray[np.bool_] = self.accepted + 1 <= self.left
        return mask

    def take(self, index: NDArray[np.integer[Any]] | NDArray[np.bool_]) -> Trace:
        """Some positions."""
        return Trace(**{name: array[index] for name, array in _arrays(self).items()})

    def starts(self) -> NDArray[np.intp]:
        """First position of each answer."""
        return np.flatnonzero(np.diff(self.prompt, prepend=self.prompt[:1] - 1))

    def walk(self, w: int) -> NDArray[np.intp]:
        """The positions at which rounds of fixed length w begin."""
        return np.fromiter(self._walk(w), np.intp)

    def _walk(self, w: int) -> Iterator[int]:
        bounds = [*self.starts(), len(self)]
        for start, end in pairwise(bounds):
            at = start
            while at < end:
                yield at
                at += min(int(self.accepted[at]), w - 1) + 1

    def save(self, path: Path) -> None:
        """Write to `path`, through a file beside it: an interruption leaves the old one whole.

        Raises:
            CalibrationError: it cannot be written.
        """
        early = path.with_name(path.name + ".part")
        try:
            with early.open("wb") as file:
                np.savez_compressed(file, allow_pickle=False, **_arrays(self))
            early.replace(path)
        except OSError as error:
            early.unlink(missing_ok=True)
            raise CalibrationError(
                f"{path} cannot be written: {error.strerror}. The answers before it are kept; make "
                "room there and run the same command again."
            ) from None

    @staticmethod
    def load(path: Path) -> Trace:
        """Read what `save` wrote.

        Raises:
            CalibrationError: the file is damaged or no trace.
        """
        try:
            with np.load(path, allow_pickle=False) as data:
                trace = Trace(**{f.name: data[f.name] for f in fields(Trace)})
            alike = len({len(a) for a in _arrays(trace).values()}) == 1
        except (
            OSError,
            ValueError,
            KeyError,
            EOFError,
            TypeError,
            BadZipFile,
            zlib.error,
        ) as error:
            raise CalibrationError(f"The trace {path} cannot be read: {error}.") from None
        _check(trace, path, alike)
        return trace


def _check(trace: Trace, path: Path, alike: bool) -> None:
    """Arrays that belong together, and values that a capture can give. alike: of one length."""
    shape = trace.confidence.shape
    alike = alike and {a.dtype.kind for a in _arrays(trace).values()} <= {*"iuf"}
    alike = alike and trace.entropy.shape == shape and trace.experts.ndim == 4 and len(shape) == 2
    if not alike or trace.experts.shape[2] != shape[1] + 1:
        raise CalibrationError(f"The trace {path} is damaged: its arrays do not belong together.")
    scores = np.isfinite(trace.confidence).all() and np.isfinite(trace.entropy).all()
    drafts = ((trace.accepted >= 0) & (trace.accepted <= shape[1])).all()
    if not (scores and drafts and (trace.left > 0).all()):
        raise CalibrationError(f"The trace {path} is damaged: a value is out of range.")


def joined(parts: list[Trace]) -> Trace:
    """Several traces as one.

    Raises:
        CalibrationError: they are of different block sizes or models.
    """
    arrays = [_arrays(part) for part in parts]
    if len({part.experts.shape[1:] for part in parts}) > 1:
        raise CalibrationError("The traces are of different pairs; delete those of the other.")
    return Trace(**{name: np.concatenate([a[name] for a in arrays]) for name in arrays[0]})


def _arrays(trace: Trace) -> dict[str, NDArray[Any]]:
    return {f.name: getattr(trace, f.name) for f in fields(trace)}
