"""Checks and timings of a round's small kernels: its length and its end."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from hybridspec.kernels.accept import naive as accept_law
from hybridspec.kernels.accept.accept import Round, accept, stop_table
from hybridspec.kernels.bench.setting import Setting
from hybridspec.kernels.length import naive as length_law
from hybridspec.kernels.length.length import Lengths, correct, select
from hybridspec.kernels.length.rule import Rule
from hybridspec.policy.acceptance import AcceptanceModel, IsotonicCurves
from hybridspec.policy.baselines import RatioPolicy
from hybridspec.policy.hybrid import ThroughputPolicy
from hybridspec.policy.length import FixedLength, LengthPolicy
from hybridspec.policy.objective import CorrectionTables

DRAFTS, KNOTS = 15, 104  # a block's; of a curve, as many as the embedded pair's have
WEIGHTS = (1.5, 1.2, -0.2, 0.0, 0.6, 0.02)  # of the logistic model, about as fitted ones are
RHO, STEP, EXPERT = 1.3, 0.2, 0.05  # tokens a ms; ms an input; ms an expert


def policies(s: Setting) -> dict[str, LengthPolicy]:
    """One of each form, with costs that rise about as fast as the expected tokens."""
    x, y = (_uniform(s, DRAFTS, KNOTS).sort(1).values for _ in range(2))
    model = AcceptanceModel(IsotonicCurves(x, y), torch.tensor(WEIGHTS))
    cost = torch.cat((torch.zeros(1), 0.1 + 0.4 * _uniform(s, DRAFTS + 1))).cumsum(0)
    mean, given = 9 * _uniform(s, DRAFTS + 1), 9 * _uniform(s, DRAFTS + 1, s.shape.top + 1)
    tables = CorrectionTables(STEP, EXPERT, mean, given)
    return {
        "throughput": ThroughputPolicy(model, cost, RHO, tables, DRAFTS + 1),
        "quotient": RatioPolicy(1 + cost, tuple(range(2, DRAFTS + 2))),
        "fixed": FixedLength(DRAFTS + 1, 5),
    }


def _uniform(s: Setting, *shape: int) -> Tensor:
    """[0, 1) on the host."""
    return torch.rand(shape, generator=s.generator, device=s.device).cpu()


def check_rounds(s: Setting) -> None:
    """How many of random rounds are decided otherwise than by the laws: none may be."""
    count = 500 if s.device.type == "cuda" else 3
    for name, policy in policies(s).items():
        _keep(s, f"lengths, {name}", count, lambda p=policy: _same_length(s, p))
    _keep(s, "accept", count, lambda: _same_end(s))


def _keep(s: Setting, name: str, count: int, agree: Callable[[], bool]) -> None:
    wrong = sum(not agree() for _ in range(count))
    s.keep({"name": f"check {name}", "rounds": count, "wrong": wrong, "ok": wrong == 0})


def _integer(s: Setting, low: int, high: int) -> int:
    return int(torch.randint(low, high, (), generator=s.generator, device=s.device))


def _experts(s: Setting) -> Tensor:
    """[16, k] int32, distinct in a row."""
    score = torch.rand(16, s.shape.experts, generator=s.generator, device=s.device)
    return score.topk(s.shape.top).indices.int().contiguous()


def _same_length(s: Setting, policy: LengthPolicy) -> bool:
    rule, lengths = Rule.of(policy, s.device), Lengths.empty(s.device)
    confidence, entropy, room = _uniform(s, 16) ** 0.3, 3 * _uniform(s, 16), _integer(s, 1, 40)
    law = length_law.select(policy, confidence[1:], entropy[1:], room)
    select(rule, confidence.to(s.device), entropy.to(s.device), s.scalar(room), lengths)
    ids = _experts(s)
    if rule.mean is not None:
        correct(rule, ids, lengths)
    w = length_law.correct(policy, law, ids.long().cpu())
    found = [int(t) for t in lengths[:3]]
    return found == [law.choice.w0, law.u, w]


def _same_end(s: Setting) -> bool:
    w, room = _integer(s, 1, 17), _integer(s, 1, 20)
    a = _integer(s, 0, w)
    y = torch.randint(50, (16,), generator=s.generator, device=s.device)
    inputs = torch.cat((y[:1], y[:15]))
    inputs[a + 1 :] += 1
    stops = [_integer(s, 0, 50)]
    state = Round.empty(s.device)
    state.room.fill_(room)
    law = accept_law.accept(inputs, y, w, room, stops)
    accept(inputs, y, s.scalar(w), stop_table(stops, 16, s.device), state)
    emitted = state.emitted[: int(state.kept)].tolist()
    found = accept_law.Verdict(int(state.accepted), tuple(emitted), int(state.done))
    return found == law


def time_rounds(s: Setting) -> None:
    """The kernels by themselves; all run in one warp, so their time is latency."""
    lengths, state, ids = Lengths.empty(s.device), Round.empty(s.device), _experts(s)
    state.room.fill_(1 << 30)
    confidence, entropy = (_uniform(s, 16).to(s.device) for _ in range(2))
    for name, policy in policies(s).items():
        rule = Rule.of(policy, s.device)

        def choose(rule: Rule = rule) -> None:
            select(rule, confidence, entropy, state.room, lengths, **s.options)

        s.timed(f"select, {name}", "", [choose] * 20, confidence.nbytes)
    rule = Rule.of(policies(s)["throughput"], s.device)
    lengths.u.fill_(16)
    lengths.nominal.fill_(15)  # the most rows to look through
    s.timed("correct", "", [lambda: correct(rule, ids, lengths, **s.options)] * 20, ids.nbytes)
    tokens = torch.arange(16, device=s.device)
    stops = stop_table([99], 16, s.device)

    def end() -> None:
        accept(tokens, tokens, lengths.w, stops, state, **s.options)

    s.timed("accept", "", [end] * 20, 2 * tokens.nbytes)
