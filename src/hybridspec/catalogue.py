"""The systems that need a calibration profile, by name. `systems.py` has those that need none.

Each takes its own runtime's cost: the rounds of its GDN verifier, as the profile measured them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from hybridspec.errors import RequestError
from hybridspec.model.gdn import VERIFY, Verifier
from hybridspec.policy.baselines import (
    Acceptance,
    LaggedRatioPolicy,
    RatioPolicy,
    ThresholdPolicy,
    angelslim_lengths,
    dcut_lengths,
    raw,
)
from hybridspec.policy.hybrid import ThroughputPolicy
from hybridspec.policy.length import FixedLength, LengthPolicy
from hybridspec.policy.online import OnlinePolicy
from hybridspec.policy.online_correction import CorrectedOnlinePolicy
from hybridspec.policy.profile import Cost, Profile
from hybridspec.processor import note_other_processor

LAUNCHER = "eager"


@dataclass(frozen=True)
class Calibrated:
    """A profile as one system's builder sees it: for a verifier and a drafter's block size W."""

    profile: Profile
    cost: Cost
    block: int

    @property
    def rounds(self) -> Tensor:
        """[W + 1] whole-round ms."""
        return self.cost.round_curve(self.block)

    @property
    def curve(self) -> Tensor:
        """[W + 1] C_tgt ms."""
        return self.cost.target_curve(self.block)

    def ratio(self, lengths: tuple[int, ...], conditional: Acceptance = raw) -> RatioPolicy:
        """Tokens over ms, of some lengths."""
        return RatioPolicy(self.rounds, lengths, conditional, self.block)

    def hybrid(self, argument: str, corrected: bool) -> ThroughputPolicy:
        """The paper's policy, with or without the correction."""
        tables = self.profile.tables() if corrected else None
        acceptance, drafts = self.profile.acceptance(), self.drafts(argument)
        return ThroughputPolicy(acceptance, self.curve, self.cost.rho, tables, drafts + 1)

    def wider(self, argument: str, shrink: bool) -> ThroughputPolicy:
        """The paper's policy with a correction of wider reach; the argument is K or K:DRAFTS."""
        ahead, _, drafts = argument.partition(":")
        known = {str(k): k for k in range(0 if shrink else 1, self.block)}
        known |= {"": 1} if shrink else {}
        if ahead not in known:
            raise RequestError(
                "Expected how many inputs beyond w0 the correction looks at after the colon, from "
                f"{min(known.values())} to {self.block - 1}; got {argument!r}."
            )
        policy = self.hybrid(drafts, corrected=True)
        return replace(policy, shrink=shrink, ahead=known[ahead])

    def online(self, argument: str, corrected: bool) -> OnlinePolicy:
        """The policy that goes on learning, with or without the correction."""
        profile, cost, drafts = self.profile, self.cost, self.drafts(argument)
        fixed = profile.draft_ms[drafts - 1]
        known = (profile.acceptance(), self.curve, fixed, cost.rho, cost.plain_ms, drafts + 1)
        if corrected:
            return CorrectedOnlinePolicy(*known, tables=profile.tables())
        return OnlinePolicy(*known)

    def drafts(self, argument: str) -> int:
        """How many drafts a round asks for: as calibrated, or the number after the colon."""
        known = {str(m): m for m in range(1, self.block)} | {"": self.cost.drafts}
        if argument not in known:
            raise RequestError(
                f"A system was given {argument!r} after its colon; expected a number of drafts "
                f"from 1 to {self.block - 1}, a verifier ({', '.join(VERIFY)}), or nothing for "
                "what calibration found."
            )
        return known[argument]

    def scaled(self, confidence: Tensor, entropy: Tensor) -> Tensor:
        """Confidence after DSpark's temperatures."""
        t = torch.tensor(self.profile.temperatures, device=confidence.device)
        return (confidence.logit(1e-6) / t[: confidence.shape[-1]]).sigmoid()

    @property
    def every(self) -> tuple[int, ...]:
        """All lengths from 2."""
        return tuple(range(2, self.block + 1))


@dataclass(frozen=True)
class Entry:
    """How a name becomes a policy, and the verifier it runs on. `takes` names its argument."""

    verifier: Verifier
    build: Callable[[Calibrated, str], LengthPolicy]
    takes: str = ""


DRAFTS = "a number of drafts, such as 7"
AHEAD = "how many inputs beyond w0 the correction looks at, such as 2, and a number of drafts"
CATALOGUE: dict[str, Entry] = {
    "static": Entry("exact", lambda c, _: FixedLength(c.cost.static)),
    "dcut": Entry("per-token", lambda c, a: c.ratio(_dcut(a, c.block)), "angelslim or nothing"),
    "evict": Entry("per-token", lambda c, _: c.ratio(c.every)),
    "evict+replayssm": Entry("replay", lambda c, _: c.ratio(c.every)),
    "evict-cal": Entry("exact", lambda c, _: c.ratio(c.every, c.profile.acceptance().conditional)),
    "evict-sts": Entry("exact", lambda c, _: c.ratio(c.every, c.scaled)),
    "vllm-adaptive": Entry(
        "exact",
        lambda c, _: LaggedRatioPolicy(
            c.rounds, c.profile.acceptance().conditional, longest=c.block
        ),
    ),
    "specdecpp": Entry(
        "exact",
        lambda c, a: ThresholdPolicy(
            _threshold(a), c.profile.acceptance().conditional, longest=c.block
        ),
        "a threshold between 0 and 1, such as 0.5",
    ),
    "nominal-only": Entry("exact", lambda c, a: c.hybrid(a, corrected=False), DRAFTS),
    "hybridspec": Entry("exact", lambda c, a: c.hybrid(a, corrected=True), DRAFTS),
    "hybridspec+look": Entry("exact", lambda c, a: c.wider(a, shrink=False), AHEAD),
    "hybridspec+shrink": Entry("exact", lambda c, a: c.wider(a, shrink=True), AHEAD),
    "auto": Entry("exact", lambda c, a: c.online(a, corrected=False), DRAFTS),
    "auto+correct": Entry("exact", lambda c, a: c.online(a, corrected=True), DRAFTS),
}


def build(name: str, profile: Profile, block: int) -> tuple[LengthPolicy, Verifier]:
    """The policy and verifier of a catalogued NAME[:ARG][:VERIFIER].

    A verifier named last replaces the system's own, and its costs with it: the GDN ablation of
    Table 3 is `hybridspec:per-token`.

    Raises:
        RequestError: an argument that the system does not take, or a profile without the costs of
            its verifier or for another block size.
    """
    kind, _, argument = name.partition(":")
    entry = CATALOGUE[kind]
    verifier, argument = _verifier(entry, argument)
    if (argument or name.endswith(":")) and not entry.takes:
        raise RequestError(f"The system {kind} takes nothing after a colon; got {name!r}.")
    if len(profile.curves_x) != block - 1:
        raise RequestError(
            f"The profile is for {len(profile.curves_x)} drafts and the drafter proposes "
            f"{block - 1}. Make a new one with `hybridspec calibrate`."
        )
    cost = profile.cost.get(f"{verifier}/{LAUNCHER}")
    if cost is None:
        raise RequestError(
            f"The profile has no costs of the verifier {verifier}, on which {name} runs. "
            "Make one that has with `hybridspec calibrate`."
        )
    note_other_processor(profile.runtime)
    return entry.build(Calibrated(profile, cost, block), argument), verifier


def _verifier(entry: Entry, argument: str) -> tuple[Verifier, str]:
    """The verifier that an argument ends with, else the entry's own; and what is left of it."""
    rest, _, last = argument.rpartition(":")
    for known in VERIFY:
        if last == known:
            return known, rest
    return entry.verifier, argument


def _dcut(argument: str, block: int) -> tuple[int, ...]:
    if argument not in ("", "angelslim"):
        raise RequestError(f"dcut takes angelslim or nothing after a colon; got {argument!r}.")
    return angelslim_lengths(block) if argument else dcut_lengths(block)


def _threshold(argument: str) -> float:
    try:
        value = float(argument)
    except ValueError:
        value = -1.0
    if not 0 < value < 1:
        raise RequestError(
            "specdecpp takes a threshold between 0 and 1 after a colon, such as specdecpp:0.5; got "
            f"{argument!r}."
        )
    return value
