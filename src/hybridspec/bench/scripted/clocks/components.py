"""What a round's time is spent on at every length: the paper's Figure 1 and Table 4.

A round as it is launched, but for the choice of its length, over and over from one state. A
component's time is that of a round with the component twice (`twice.py`) less that of a plain one;
of drafter, acceptance and commit, that of a plain round less one without. What they leave of a
round are its seams, embedding and norms.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from statistics import fmean
from typing import Any

import torch

from hybridspec.bench.component_fits import fits, growth
from hybridspec.bench.scripted.calibration import blocks as drafted
from hybridspec.bench.scripted.clocks.board import Board
from hybridspec.bench.scripted.clocks.rounds import spread
from hybridspec.bench.scripted.clocks.twice import (
    ATTENTION,
    ATTENTION_PROJECTIONS,
    GDN,
    GDN_PROJECTIONS,
    HEAD,
    MOE,
    TWICE,
    TwicePass,
)
from hybridspec.calibration.cost import fit_line
from hybridspec.core import SamplingParams
from hybridspec.kernels.bench.clock import Clock, GraphClock
from hybridspec.kernels.forward.buffers import Buffers
from hybridspec.kernels.forward.drafter import DrafterPass
from hybridspec.kernels.forward.drafter_buffers import DrafterBuffers
from hybridspec.kernels.forward.gdn import blocks
from hybridspec.kernels.length.rule import Rule
from hybridspec.runtime.device.memory import Memory
from hybridspec.runtime.device.passes import Passes
from hybridspec.runtime.device.ring import Ring
from hybridspec.runtime.device.round import Plan, Round
from hybridspec.runtime.launched import LaunchedTarget
from hybridspec.runtime.launched_drafter import LaunchedDrafter

LENGTHS = (1, 2, 4, 6, 8, 12, 16)
BLOCKS, REPLAYS = 5, 5  # inputs that every length is timed on; rounds in a row, timed together
DRAFTER, ACCEPTANCE, COMMIT, SEAMS, WHOLE = "drafter", "acceptance", "commit", "seams", "round"
LEFT_OUT = (DRAFTER, ACCEPTANCE, COMMIT)
PARTS = (*TWICE, ACCEPTANCE, COMMIT, SEAMS, DRAFTER)
# The paper's components, as `component_fits` has them, by ours.
PAPER_PARTS = {
    "gdn": (GDN, GDN_PROJECTIONS), "moe": (MOE,), "attention": (ATTENTION, ATTENTION_PROJECTIONS),
    "other": (HEAD, ACCEPTANCE, COMMIT, SEAMS),
}  # fmt: skip
ROOM = 1 << 30  # tokens that may still be emitted: an answer without an end
Row = dict[str, Any]


def components(board: Board) -> dict[str, Any]:
    """Every length on the same inputs, all variants of a round in turn."""
    timed = Timed(board)
    lengths = LENGTHS[1:3] if board.given.small else LENGTHS
    inputs = drafted(board.pair, 1 if board.given.small else BLOCKS)
    rows = [timed.row(w, inputs) for w in lengths]
    return {"rows": rows, "lines": lines(rows)} | as_profile(rows)


class Timed:
    """One sequence behind a prompt, and rounds that leave it as it is."""

    def __init__(self, board: Board) -> None:
        answers = board.answers("loop")  # whose memory kernels work in, wherever they run
        slot, drafter_slot = answers.slots()
        target = LaunchedTarget(board.pair.target)
        drafter = LaunchedDrafter(board.pair.drafter, target)
        parts = blocks(target.config, target.device.type, target.dtype)
        self.buffers = Buffers.empty(
            target.config, len(slot.tap_layers), parts, slot.keys.shape[2], target.device,
            target.dtype,
        )  # fmt: skip
        self.run = TwicePass(target, slot, self.buffers)
        own = DrafterBuffers.empty(drafter.config, drafter_slot, len(target.weights.head))
        self.drafter_buffers = replace(own, features=self.buffers.features)
        self.drafts = DrafterPass(
            drafter, drafter.weights, drafter_slot, self.drafter_buffers, early=drafter.early
        )
        self.memory = Memory.empty(target.config.vocab_size, target.device)
        self.memory.request.set(SamplingParams(), 0, 1)
        ring, anchor = Ring(2, target.device), self.memory.answer.tokens[:1]
        plan = Plan(Rule(drafts=drafter.config.num_drafts, length=1), scored=True, split=False)
        self.full, self.bare = (
            Round(plan, Passes(self.run, d, anchor), self.memory, ring, early=target.early)
            for d in (self.drafts, None)
        )
        self.place = answers.length
        self.clock = GraphClock() if target.device.type == "cuda" else Clock()
        self._graphs: dict[str, Callable[[], float]] = {}

    def row(self, w: int, inputs: torch.Tensor) -> Row:
        """A length on inputs [N, W]: ms of the whole and of its parts, over those inputs."""
        ms: dict[str, list[float]] = defaultdict(list)
        distinct = []
        for tokens in inputs:
            self.begin(w, tokens)
            distinct.append(self.distinct())
            before = self.time(WHOLE)
            for name in (*TWICE, *LEFT_OUT):
                ms[name].append(self.time(name))
            ms[WHOLE].append((before + self.time(WHOLE)) / 2)  # a card's clock drifts
        parts = {name: parted(ms, name) for name in (*TWICE, *LEFT_OUT)}
        parts[SEAMS] = [
            whole - sum(each) for whole, *each in zip(ms[WHOLE], *parts.values(), strict=True)
        ]
        return {
            "w": w, "kept": (w + 1) // 2, "distinct": fmean(distinct),
            "round_ms": spread(ms[WHOLE]),
            "parts_ms": {name: spread(parts[name]) for name in PARTS},
        }  # fmt: skip

    def begin(self, w: int, tokens: torch.Tensor) -> None:
        """Lengths and inputs of the next rounds; half of w are kept."""
        place, kept, rows = self.place, (w + 1) // 2, len(tokens)
        self.buffers.tokens.copy_(tokens)
        self.buffers.lengths.all.copy_(torch.tensor([place, w, w, kept], dtype=torch.int32))
        lengths = torch.tensor([place, kept, place, rows], dtype=torch.int32)
        self.drafter_buffers.lengths.all.copy_(lengths)
        self.memory.numbers.set(position=place, looked=w, verified=w, room=ROOM)

    def distinct(self) -> float:
        """U: mean distinct experts of a layer."""
        counts: list[torch.Tensor] = []
        self.run.again.counts = counts
        self.run.unsplit()
        self.run.again.counts = None
        return float(torch.stack(counts).float().mean())

    def time(self, name: str) -> float:
        """ms of a round in which `name` is done twice or left out; WHOLE is a plain one."""
        if name not in self._graphs:
            self._graphs[name] = self._timing(name)
        return self._graphs[name]()

    def _timing(self, name: str) -> Callable[[], float]:
        with self.other(name):
            call = self.variants().get(name, self.whole)
            if not isinstance(self.clock, GraphClock):
                clock = self.clock
                return lambda: self._interpreted(name, clock)
            clock_, graph = self.clock, self.clock.capture([call])
        return lambda: clock_.replays(graph, 1, REPLAYS) / 1e3

    def _interpreted(self, name: str, clock: Clock) -> float:
        with self.other(name):
            return clock([self.variants().get(name, self.whole)]) / 1e3

    @contextmanager
    def other(self, name: str) -> Iterator[None]:
        """While it lasts, what is launched has `name` twice, or no commit."""
        self.run.again.twice = name if name in TWICE else ""
        self.run.commits = name != COMMIT
        try:
            yield
        finally:
            self.run.again.twice, self.run.commits = "", True

    def variants(self) -> Mapping[str, Callable[[], None]]:
        """Rounds that are launched otherwise than `whole`."""
        return {DRAFTER: self.undrafted, ACCEPTANCE: self.unjudged}

    def whole(self) -> None:
        """A round."""
        self.drafts.propose(scored=True)
        self.run.unsplit()
        self.full.end()

    def undrafted(self) -> None:
        """Without its drafter."""
        self.run.unsplit()
        self.bare.end()

    def unjudged(self) -> None:
        """Without acceptance: sampling, the verdict, the ring."""
        self.drafts.propose(scored=True)
        self.run.unsplit()
        self.full.keep()


def parted(ms: Mapping[str, list[float]], name: str) -> list[float]:
    """A part's ms, from rounds with and without it on the same inputs."""
    sign = 1 if name in TWICE else -1
    return [sign * (a - b) for a, b in zip(ms[name], ms[WHOLE], strict=True)]


def lines(rows: list[Row]) -> dict[str, Row]:
    """Each part as a + b w, least squares over all lengths but 1, and its growth from the first
    length to the last, as a share."""
    found = {}
    w = torch.tensor([row["w"] for row in rows if row["w"] > 1], dtype=torch.float64).numpy()
    for name in PARTS:
        ms = {row["w"]: row["parts_ms"][name]["median"] for row in rows}
        y = torch.tensor([v for n, v in ms.items() if n > 1], dtype=torch.float64).numpy()
        line, first, last = fit_line(w, y), ms[min(ms)], ms[max(ms)]
        grown = last / first - 1 if first > 0 else math.nan
        found[name] = {
            "a": line.intercept, "b": line.slope, "r2": line.r2,
            "growth": None if math.isnan(grown) else grown,
        }  # fmt: skip
    return found


def as_profile(rows: list[Row]) -> Row:
    """The same as `bench profile` has it: rows by the paper's components, its fits and growth."""
    table = []
    for row in rows:
        ms = {name: part["median"] for name, part in row["parts_ms"].items()}
        summed = {name: sum(ms[p] for p in ours) for name, ours in PAPER_PARTS.items()}
        parts = {name: {"median": value} for name, value in summed.items()}
        table.append({
            "w": row["w"], "target_ms": {"median": sum(summed.values())}, "components_ms": parts,
            "drafter_ms": {"median": ms[DRAFTER]},
        })  # fmt: skip
    return {"paper_rows": table, "paper_fits": fits(table), "paper_growth": growth(table)}
