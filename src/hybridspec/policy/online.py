"""A policy that goes on learning: a stale profile corrects itself, and speculation that does not
pay is left off.

Three things are re-estimated from finished rounds, the older ones forgotten bit by bit: the pooled
rate rho, offsets to the model of acceptance, and what speculation gains over plain decoding.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from torch import Tensor

from hybridspec.core import Proposal
from hybridspec.policy.acceptance import AcceptanceModel
from hybridspec.policy.host import HostAcceptance, prefix_of, scores, select, sigmoid
from hybridspec.policy.length import Choice, Uncorrected

MEMORY = 0.98  # weight of the past a round: about the last 50 count
STEP = 0.03  # of the offsets, in logits a label
MOST = 4.0  # logits that an offset may reach
EXPLORE = 64  # one round in so many verifies a whole block, or the tail would never be seen
TRIAL, FIRST_REST, LONGEST_REST = 12, 32, 1024  # rounds
KEPT = 0.1  # of the past, when a trial begins


@dataclass
class Engagement:
    """Whether to speculate, from what it has gained lately.

    Speculation that gains less than plain decoding rests for a while, twice as long each time, and
    is tried again: what finding out costs is a few rounds in hundreds. A machine that is slower
    than the calibrated one is slower at both: until plain rounds have run here, they count as
    slowed down like the others.

    Attributes:
        drafted, plain: measured over predicted ms of either kind of round; None: none ran yet.
        rest: plain rounds still to run. next_rest: how many the next time.
        trial: rounds to run before the next judgement.
    """

    drafted: float | None = None
    plain: float | None = None
    rest: int = 0
    next_rest: int = FIRST_REST
    trial: int = TRIAL

    def observe(self, speculated: bool, slowness: float) -> None:
        """Count a finished round that took `slowness` times the predicted ms."""
        if speculated:
            self.drafted = _moved(self.drafted, slowness)
            self.trial = max(0, self.trial - 1)
        else:
            self.plain = _moved(self.plain, slowness)
            self.rest = max(0, self.rest - 1)

    def begin(self) -> None:
        """A new answer may be another kind of text: look again, but rest sooner the second time."""
        self.rest, self.trial = 0, TRIAL
        self.next_rest = max(FIRST_REST, self.next_rest // 2)

    def judge(self, utility: float) -> None:
        """Rest if speculation gains less than plain decoding; utility is as if neither slowed."""
        if self.trial or self.rest:
            return
        if self.drafted and self.plain:
            utility *= self.plain / self.drafted
        if utility >= 1:
            self.next_rest = FIRST_REST
            return
        self.rest, self.trial = self.next_rest, TRIAL
        self.next_rest = min(2 * self.next_rest, LONGEST_REST)


def _moved(mean: float | None, value: float) -> float:
    """A moving mean; a round that was interrupted by something counts threefold at most."""
    return value if mean is None else mean + (1 - MEMORY) * (min(value, 3 * mean) - mean)


@dataclass
class OnlinePolicy(Uncorrected):
    """Equation 5 with an acceptance model and a rate that follow what is seen.

    Attributes:
        acceptance: the calibrated model; `shift`, for all positions, and `offsets`, for each, are
            added to its logits. Late positions are seen seldom: the common shift speaks for them.
        cost: [W + 1] C_tgt(w) at index w, ms.
        fixed_ms: what a drafted round costs at any length.
        rho: the calibrated rate, tokens a ms; the start of the estimate.
        plain_ms: a round of plain decoding.
        longest: W.
    """

    acceptance: AcceptanceModel
    cost: Tensor
    fixed_ms: float
    rho: float
    plain_ms: float
    longest: int
    lookahead: int = 0
    scored: bool = True
    engagement: Engagement = field(init=False)
    offsets: list[float] = field(init=False)
    shift: float = field(default=0.0, init=False)
    _model: HostAcceptance = field(init=False)
    _costs: list[float] = field(init=False)
    _rounds: int = field(default=0, init=False)
    _tokens: float = field(default=0.0, init=False)
    _predicted: float = field(default=0.0, init=False)
    _conditional: list[float] | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        self.engagement = Engagement()
        self.offsets = [0.0] * (self.longest - 1)
        self._model, self._costs = HostAcceptance.of(self.acceptance), self.cost.tolist()
        weight = 1 / (1 - MEMORY)
        self._predicted, self._tokens = weight, weight * self.rho  # the profile counts as the past

    def begin(self) -> None:
        """A new answer: a rest does not outlast the text that it came from."""
        if self.engagement.rest:
            self._look_again()
        self.engagement.begin()

    def drafts(self) -> int:
        """A whole block, or none while speculation rests."""
        return 0 if self.engagement.rest else self.longest - 1

    def select(self, proposal: Proposal | None) -> Choice:
        """The best length, verifying nothing but the anchor among them."""
        self._conditional = None
        if proposal is None:
            return Choice(1)
        assert proposal.confidence is not None
        assert proposal.entropy is not None
        scores = proposal.confidence.tolist(), proposal.entropy.tolist()
        logits = [
            z + self.shift + offset
            for z, offset in zip(self._model.logits(*scores), self.offsets, strict=False)
        ]
        self._conditional, prefix = [sigmoid(z) for z in logits], prefix_of(logits)
        if self._rounds % EXPLORE == EXPLORE - 1:
            return Choice(len(prefix) + 1, prefix)
        return Choice(select(prefix, self._costs, self.rate, shortest=1), prefix)

    def scores(self, prefix: Sequence[float]) -> dict[int, float]:
        """G(w) - rho C(w) of every length from 1, given p_1..p_M."""
        return scores(prefix, self._costs, self.rate, shortest=1)

    def reason(self) -> str:
        """What it goes by."""
        if self.engagement.rest:
            return f"rests for {self.engagement.rest} plain rounds: speculation gained less lately"
        if self._conditional is None:
            return "nothing was drafted"
        if self._rounds % EXPLORE == EXPLORE - 1:
            return f"the whole block, to see how late drafts fare (one round in {EXPLORE})"
        return f"the highest G(w) - rho C(w), rho = {self.rate:.3f} tokens a ms of late"

    @property
    def rate(self) -> float:
        """rho as it is now: tokens a predicted ms. A machine that is slower throughout changes rho
        and the costs alike, and no choice."""
        return self._tokens / self._predicted

    def observe(self, w: int, accepted: int, seconds: float) -> None:
        """Learn from a finished round of w inputs."""
        engagement, ms = self.engagement, seconds * 1e3
        if self._conditional is None:
            rested = engagement.rest > 0
            engagement.observe(False, ms / self.plain_ms)
            if rested and engagement.rest == 0:
                self._look_again()
            return
        self._rounds += 1
        predicted = self._costs[w] + self.fixed_ms
        self._tokens = MEMORY * self._tokens + accepted + 1
        self._predicted = MEMORY * self._predicted + predicted
        engagement.observe(True, ms / predicted)
        engagement.judge(self.rate * self.plain_ms)
        seen = min(accepted + 1, w - 1)  # drafts whose fate is known: the accepted, one rejected
        for i, c in enumerate(self._conditional[:seen]):
            self._learn(i, (i < accepted) - c)

    def _look_again(self) -> None:
        """A trial begins; what was before the rest says little."""
        self._tokens, self._predicted = KEPT * self._tokens, KEPT * self._predicted

    def _learn(self, i: int, error: float) -> None:
        """A step of logistic regression on the label of one draft."""
        self.shift = max(-MOST, min(MOST, self.shift + STEP * error))
        self.offsets[i] = max(-MOST, min(MOST, self.offsets[i] + STEP * error))
