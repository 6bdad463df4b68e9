"""The file of recorded answers: every position's A_D and scores, and acceptance as fitted to them.

One compressed file of numbers, below a megabyte; no text. Scores have a byte each, on scales on
which equal steps matter equally: the log odds of a confidence, the logarithm of an entropy.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from hybridspec.bench.scripted.paper import DFLASH_AL
from hybridspec.bench.scripted.thinning import Thinned, thinned
from hybridspec.calibration.trace import Trace, joined
from hybridspec.errors import RequestError

ODDS, NATS = (-6.0, 15.0), (-16.0, 3.0)  # of log odds and of ln entropy; beyond, the nearest
CODES = 255
FITTED = 6000  # positions a category that fits see: the same weight for all categories
EDGE = 1e-7  # confidences and entropies nearer to 0 or 1 say nothing more
Floats = NDArray[np.float64]
Scores = NDArray[np.float32] | NDArray[np.float64]
Rows = tuple[tuple[float, ...], ...]
Answers = Mapping[str, Sequence[Trace]]


@dataclass(frozen=True)
class Fit:
    """Acceptance as a calibration profile has it, fitted to one pair's thinned traces; `data` says
    how well."""

    curves_x: Rows
    curves_y: Rows
    weights: tuple[float, ...]
    temperatures: tuple[float, ...]
    data: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Traces:
    """answers: by split, of every category. fits: by the pair whose acceptance they have. about:
    what was recorded, for people."""

    answers: Answers
    fits: Mapping[str, Fit]
    about: Mapping[str, Any]

    def of(self, pair: str, split: str, positions: int) -> dict[str, Thinned]:
        """A trace a category: the split's answers, thinned to the pair's published tokens a round.

        Every category draws on all answers, for those of one alone hold hardly a long round.
        """
        whole, every = joined([*self.answers[split]]), DFLASH_AL[pair].items()
        return {
            c: thinned(whole, mean, positions, i / len(every)) for i, (c, mean) in enumerate(every)
        }

    def save(self, path: Path) -> None:
        """Write everything to a file."""
        listed = [(split, t) for split, answers in self.answers.items() for t in answers]
        body = {
            "answers": [(split, len(t)) for split, t in listed],
            "fits": {pair: asdict(fit) for pair, fit in self.fits.items()},
            "about": dict(self.about),
        }
        every = joined([t for _, t in listed])
        with path.open("wb") as file:
            np.savez_compressed(
                file, accepted=every.accepted.astype(np.uint8),
                confidence=_coded(_odds(every.confidence), ODDS),
                entropy=_coded(np.log(np.maximum(every.entropy, EDGE)), NATS),
                body=np.frombuffer(json.dumps(body).encode(), np.uint8),
            )  # fmt: skip

    @classmethod
    def load(cls, path: Path) -> Traces:
        """Read what `save` wrote.

        Raises:
            RequestError: the file cannot be read.
        """
        try:
            with np.load(path, allow_pickle=False) as data:
                body = json.loads(data["body"].tobytes())
                confidence = 1 / (1 + np.exp(-_decoded(data["confidence"], ODDS)))
                entropy = np.exp(_decoded(data["entropy"], NATS))
                whole = _trace(data["accepted"].astype(np.int16), confidence, entropy)
            fits = {pair: _fit(fit) for pair, fit in body["fits"].items()}
            return cls(_divided(whole, body["answers"]), fits, body["about"])
        except (OSError, ValueError, KeyError, TypeError, EOFError, BadZipFile) as error:
            raise RequestError(
                f"The traces {path} cannot be read: {error}. Make them with "
                "`python -m hybridspec.bench.scripted.record`."
            ) from None


def without_experts(trace: Trace) -> Trace:
    """The trace without its routing: a scripted run has its own."""
    return _trace(trace.accepted, trace.confidence, trace.entropy)


def _trace(accepted: NDArray[np.int16], confidence: Scores, entropy: Scores) -> Trace:
    """One answer of these positions."""
    n, drafts = confidence.shape
    return Trace(
        np.zeros(n, np.int32), np.arange(n, 0, -1, dtype=np.int32), confidence.astype(np.float32),
        entropy.astype(np.float32), accepted, np.zeros((n, 0, drafts + 1, 0), np.uint8),
    )  # fmt: skip


def _divided(whole: Trace, lengths: Sequence[tuple[str, int]]) -> Answers:
    """The answers that lie end to end, numbered."""
    answers: dict[str, list[Trace]] = {}
    start = 0
    for number, (split, length) in enumerate(lengths):
        part = without_experts(whole.take(np.arange(start, start + length)))
        part.prompt[:] = number
        answers.setdefault(split, []).append(part)
        start += length
    return answers


def _odds(confidence: NDArray[np.float32]) -> Floats:
    inside = np.clip(confidence.astype(np.float64), EDGE, 1 - EDGE)
    odds: Floats = np.log(inside / (1 - inside))
    return odds


def _coded(values: Floats, scale: tuple[float, float]) -> NDArray[np.uint8]:
    low, high = scale
    part = np.clip((values - low) / (high - low), 0, 1)
    codes: NDArray[np.uint8] = np.round(part * CODES).astype(np.uint8)
    return codes


def _decoded(codes: NDArray[np.uint8], scale: tuple[float, float]) -> Floats:
    low, high = scale
    values: Floats = low + codes.astype(np.float64) * ((high - low) / CODES)
    return values


def _fit(body: Mapping[str, Any]) -> Fit:
    return Fit(
        _rows(body["curves_x"]), _rows(body["curves_y"]), _row(body["weights"]),
        _row(body["temperatures"]), dict(body["data"]),
    )  # fmt: skip


def _rows(values: Sequence[Sequence[float]]) -> Rows:
    return tuple(map(_row, values))


def _row(values: Sequence[float]) -> tuple[float, ...]:
    return tuple(map(float, values))
