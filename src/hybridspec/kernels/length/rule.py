"""A length policy on a device: its tables as float64 tensors, its form as plain numbers."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import inf

import torch
from torch import Tensor

from hybridspec.kernels.linear.config import ROWS
from hybridspec.policy.acceptance import AcceptanceModel
from hybridspec.policy.baselines import RatioPolicy, raw
from hybridspec.policy.hybrid import ThroughputPolicy
from hybridspec.policy.length import FixedLength, LengthPolicy

Device = torch.device | str


@dataclass(frozen=True, eq=False)
class Rule:
    """What the kernels read. Tensors are float64, as Python's numbers are, or None where unused.

    Attributes:
        drafts: that a round asks for.
        length: the fixed length; 0 where one is chosen.
        ratio: whether the quotient of tokens and cost is maximised, and not the difference.
        lookahead: inputs that Stage 0 runs beyond the nominal length; 1 where equation 6 follows.
        x, y: [D, K] knots of the isotonic curves and weights: [6] of the logistic model; None takes
            the confidence as it is.
        cost: [W + 1] ms by length; infinite for a length that is not among the choices.
        rates: [3] rho, tokens a ms; s, ms an input of Stage 0; eta, ms an expert.
        mean: [W] and given: [W, k + 1], pairs that a draft adds, as in `CorrectionTables`.
    """

    drafts: int
    length: int = 0
    ratio: bool = False
    lookahead: int = 0
    x: Tensor | None = None
    y: Tensor | None = None
    weights: Tensor | None = None
    cost: Tensor | None = None
    rates: Tensor | None = None
    mean: Tensor | None = None
    given: Tensor | None = None

    @classmethod
    def of(cls, policy: LengthPolicy, device: Device) -> Rule:
        """The rule of a policy.

        Raises:
            ValueError: a policy that learns, or another one that the kernels do not know, or one
                whose rounds do not fit a tile.
        """
        if policy.drafts() >= ROWS or policy.longest > ROWS:
            raise ValueError(
                f"A round on the device has at most {ROWS} inputs; this policy wants "
                f"{max(policy.drafts() + 1, policy.longest)}."
            )
        match policy:
            case FixedLength():
                return cls(policy.drafts(), policy.length or policy.longest)
            case RatioPolicy():
                return _ratio(policy, device)
            case ThroughputPolicy(ahead=1, shrink=False):
                return _throughput(policy, device)
        raise ValueError(
            f"No kernel chooses lengths as {type(policy).__name__} does in this form. Run it with "
            "lengths chosen on the host."
        )


def _ratio(policy: RatioPolicy, device: Device) -> Rule:
    cost = [inf] * (policy.longest + 1)
    for w in policy.lengths:
        cost[w] = float(policy.cost[w])
    model = getattr(policy.conditional, "__self__", None)
    if isinstance(model, AcceptanceModel):
        curves = _model(model, device)
    elif policy.conditional is raw:
        curves = {}
    else:
        raise ValueError("No kernel makes probabilities of acceptance as this policy does.")
    return Rule(policy.drafts(), ratio=True, cost=_wide(cost, device), **curves)


def _throughput(policy: ThroughputPolicy, device: Device) -> Rule:
    tables, more = policy.tables, {}
    rates = [policy.rho, 0.0, 0.0]
    if tables is not None:
        rates[1:] = tables.step_ms, tables.expert_ms
        more = {"mean": _wide(tables.mean, device), "given": _wide(tables.given, device)}
    return Rule(
        policy.drafts(), lookahead=policy.lookahead, cost=_wide(policy.cost, device),
        rates=_wide(rates, device), **_model(policy.acceptance, device), **more,
    )  # fmt: skip


def _model(model: AcceptanceModel, device: Device) -> dict[str, Tensor]:
    parts = {"x": model.curves.x, "y": model.curves.y, "weights": model.weights}
    return {name: _wide(part, device) for name, part in parts.items()}


def _wide(values: Tensor | Iterable[float], device: Device) -> Tensor:
    given = values if isinstance(values, Tensor) else torch.tensor(values, dtype=torch.float64)
    return given.to(device, torch.float64).contiguous()
