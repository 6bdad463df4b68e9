"""Why a round had its length, for people: `generate --explain`."""

from __future__ import annotations

from torch import Tensor

from hybridspec.core import Explanation, Proposal
from hybridspec.policy.length import Choice, LengthPolicy
from hybridspec.policy.objective import new_experts


def explain(
    policy: LengthPolicy, proposal: Proposal | None, choice: Choice, experts: Tensor
) -> Explanation:
    """What a round's policy saw: experts [u, k] are layer 0's."""
    prefix = _numbers(choice.prefix)
    scores, reason = getattr(policy, "scores", None), getattr(policy, "reason", None)
    u = len(experts)
    return Explanation(
        confidence=_numbers(proposal.confidence if proposal else None),
        entropy=_numbers(proposal.entropy if proposal else None),
        prefix=prefix,
        scores=scores(prefix) if scores is not None and prefix else {},
        w0=choice.w0,
        u=u,
        new_experts=int(new_experts(experts, choice.w0)) if u > choice.w0 else None,
        reason="" if reason is None else reason(),
    )


def _numbers(values: Tensor | list[float] | None) -> tuple[float, ...]:
    if values is None:
        return ()
    return tuple(values.tolist() if isinstance(values, Tensor) else values)
