"""A runtime's calibration profile: acceptance as fitted to the traces, costs as measured here.

Rounds are timed at every length on calibration traces, each verifier for itself, so that a policy
knows what the runtime at hand takes. Fits need no scikit-learn.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from itertools import cycle

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from hybridspec.bench.scripted.answers import Answers
from hybridspec.bench.scripted.drafter import draft
from hybridspec.bench.scripted.model import Pair
from hybridspec.bench.scripted.plan import Plan
from hybridspec.bench.scripted.script import Drafts
from hybridspec.bench.scripted.traces import Fit
from hybridspec.calibration.assemble import fit_cost
from hybridspec.calibration.cost import expert_tables, fit_line
from hybridspec.calibration.measure import Variant, interleaved, stage0_slope, typical_rounds
from hybridspec.calibration.rounds import Samples
from hybridspec.calibration.trace import Trace, joined
from hybridspec.catalogue import LAUNCHER
from hybridspec.model.gdn import Verifier
from hybridspec.model.target import Target
from hybridspec.policy.acceptance import AcceptanceModel, IsotonicCurves
from hybridspec.policy.length import FixedLength
from hybridspec.policy.profile import Profile
from hybridspec.runtime.state import TargetSlot, W
from hybridspec.systems import System

SPLIT = "calibration"
TURNS = 40  # of single calls that are timed
SAME = (1, 2, 4, 8, 16)  # distinct tokens among W inputs: from few experts to many


def calibrate(answers: Answers, fit: Fit, experts: Trace, plan: Plan) -> Profile:
    """Measure and fit.

    Args:
        answers: with a prompt; its runtime is the one that is measured.
        fit: of acceptance, to the same traces.
        experts: blocks as `blocks` makes them, with what the target routed.
        plan: the verifiers to time, and on how many tokens of how many traces.
    """
    pair, target = answers.pair, answers.executor.target
    trace = pooled(pair)
    call = draft_ms(answers)
    prefix = _acceptance(fit).prefix(*_scores(trace.take(trace.walk(trace.drafts + 1))))
    times = {v: typical_rounds(timed(answers, v, plan)) for v in plan.verifiers}
    every = (call,) * trace.drafts  # the block always runs whole
    costs = {f"{v}/{LAUNCHER}": fit_cost(ms, trace, prefix, every) for v, ms in times.items()}
    mean, given = expert_tables(experts)
    slot, _ = answers.slots()
    return Profile(
        pair={"target": "scripted", "drafter": "scripted"},
        runtime={"device": str(target.device), "dtype": str(target.dtype).removeprefix("torch.")},
        curves_x=fit.curves_x, curves_y=fit.curves_y, weights=fit.weights, cost=costs,
        draft_ms=every, s_ms=max(0.0, stage0_slope(target, slot, turns=TURNS).slope),
        eta_ms=max(0.0, expert_ms(target, slot, pair.cycle.order)), n_all_mean=tuple(mean.tolist()),
        n_all_given=tuple(map(tuple, given.tolist())), temperatures=fit.temperatures,
    )  # fmt: skip


def pooled(pair: Pair) -> Trace:
    """All calibration traces, end to end, each an answer."""
    traces = [part.trace.trace for (split, _), part in pair.parts.items() if split == SPLIT]
    numbered = [replace(t, prompt=np.full(len(t), i, np.int32)) for i, t in enumerate(traces)]
    return joined(numbered)


def blocks(pair: Pair, count: int) -> Tensor:
    """[count, W] inputs of rounds on calibration traces, the categories in turn, along the cycle.

    At w = W each begins where the one before it ended.
    """
    device = pair.cycle.order.device
    names, said = cycle(n for n in pair.parts if n[0] == SPLIT), Drafts.empty(device)
    place, found = 0, []
    position = torch.zeros((), dtype=torch.int32, device=device)
    for i in range(count):
        name = next(names)
        pair.begin(name, 0, i / count)
        said.tokens[:1] = pair.cycle.run(place, 1)
        draft(pair.script, said.tokens[:1], position, said)
        found.append(said.tokens.clone())
        part = pair.parts[name]
        place += 1 + int(part.trace.trace.accepted[part.start(i / count)])
    return torch.stack(found)


def with_experts(experts: NDArray[np.uint16]) -> Trace:
    """Routed blocks [N, L, W, k] as a trace, for the tables of equation 6."""
    n = len(experts)
    scores = np.zeros((n, W - 1), np.float32)
    numbers = np.arange(n, 0, -1)
    return Trace(
        np.zeros(n, np.int32), numbers.astype(np.int32), scores, scores, np.zeros(n, np.int16),
        experts,
    )  # fmt: skip


def timed(answers: Answers, verifier: Verifier, plan: Plan) -> Samples:
    """(rounds, seconds) of an answer along each of some traces, by variant; variants in turn."""
    pair, block = answers.pair, answers.executor.drafter.config.block_size
    samples: Samples = defaultdict(list)
    names = [n for n in pair.parts if n[0] == SPLIT][: plan.traces]
    variants: list[Variant] = [(0, 0), *((w, block - 1) for w in range(2, block + 1))]
    systems = {variant: _fixed(variant, verifier) for variant in variants}
    for number, name in enumerate([names[0], *names]):  # the first time warms up
        for variant in variants[number:] + variants[:number]:
            pair.begin(name, answers.length)
            answer = answers.answer(systems[variant], plan.timed)
            if number:
                samples[variant].append((len(answer.rounds), answer.seconds))
    return dict(samples)


def _fixed(variant: Variant, verifier: Verifier) -> System:
    """One length every round, behind a whole scored proposal, as policies have it."""
    w, drafts = variant
    return System(f"measured:{w}", FixedLength(drafts + 1, w, scored=drafts > 0), verifier)


@torch.inference_mode()
def draft_ms(answers: Answers) -> float:
    """A call for a whole scored block behind the prompt."""
    drafter, target = answers.executor.drafter, answers.executor.target
    (_, slot), drafts = answers.slots(), drafter.config.num_drafts
    call = partial(drafter.propose, target, answers.anchor, slot, drafts, scored=True)
    return interleaved({0: call}, TURNS, target.device)[0]


@torch.inference_mode()
def expert_ms(target: Target, slot: TargetSlot, order: Tensor) -> float:
    """eta: what one more distinct (layer, expert) pair adds to a verification of W inputs.

    The inputs are fewer and fewer different tokens, from all over the cycle. slot: as it is left.
    """
    apart = order[torch.arange(W, device=order.device) * (len(order) // W)]
    inputs = {n: apart[torch.arange(W, device=order.device) % n] for n in SAME}
    pairs = [float(_pairs(target, slot, ids)) for ids in inputs.values()]
    calls = {n: partial(_verify, target, slot, ids) for n, ids in inputs.items()}
    ms = interleaved(calls, TURNS, target.device)
    return fit_line(np.array(pairs), np.array([*ms.values()])).slope


def _verify(target: Target, slot: TargetSlot, ids: Tensor) -> None:
    target.stage1(target.stage0(ids, slot, "exact"), len(ids), slot, "exact")


def _pairs(target: Target, slot: TargetSlot, ids: Tensor) -> int:
    """Distinct (layer, expert) pairs of a verification."""
    slot.routes = []
    stage0 = target.stage0(ids, slot, "exact")
    target.stage1(stage0, len(ids), slot, "exact")
    every, slot.routes = [stage0.experts, *slot.routes], None
    return sum(len(experts.unique()) for experts in every)


def _acceptance(fit: Fit) -> AcceptanceModel:
    curves = IsotonicCurves(*(torch.tensor(rows) for rows in (fit.curves_x, fit.curves_y)))
    return AcceptanceModel(curves, torch.tensor(fit.weights))


def _scores(trace: Trace) -> Iterator[Tensor]:
    return (torch.from_numpy(t).double() for t in (trace.confidence, trace.entropy))
