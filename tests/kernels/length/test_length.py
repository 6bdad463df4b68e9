"""Lengths chosen by the kernels against the policies that are the law, on random proposals."""

from __future__ import annotations

import pytest
import torch

from hybridspec.kernels.length import length as ours
from hybridspec.kernels.length import naive
from hybridspec.kernels.length.rule import Rule
from hybridspec.policy.acceptance import AcceptanceModel, IsotonicCurves
from hybridspec.policy.baselines import (
    EmaPolicy,
    RatioPolicy,
    ThresholdPolicy,
    dcut_lengths,
    raw,
)
from hybridspec.policy.hybrid import ThroughputPolicy
from hybridspec.policy.length import FixedLength, LengthPolicy
from hybridspec.policy.objective import CorrectionTables

TOP, EXPERTS = 3, 9
# proposals of a world; the interpreter takes up to 80 ms for each, a GPU one
CASES = 1000 if torch.cuda.is_available() else 15


def draws(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def model(d: int, knots: int, g: torch.Generator) -> AcceptanceModel:
    """Curves with steps and, as padding leaves them, repeated last knots."""
    x, y = (torch.rand(d, knots, generator=g).sort(1).values for _ in range(2))
    x[:, knots // 2 + 1] = x[:, knots // 2]
    x[:, -1], y[:, -1] = x[:, -2], y[:, -2]
    return AcceptanceModel(IsotonicCurves(x, y), 4 * torch.rand(6, generator=g) - 2)


def throughput(seed: int, d: int = 15, longest: int = 16, corrected: bool = True):
    """A policy whose costs go up about as fast as its tokens, so that every length is chosen."""
    g = draws(seed)
    cost = torch.cat((torch.zeros(1), 0.1 + 0.4 * torch.rand(d + 1, generator=g))).cumsum(0)
    mean, given = 9 * torch.rand(d + 1, generator=g), 9 * torch.rand(d + 1, TOP + 1, generator=g)
    tables = CorrectionTables(0.2, 0.05, mean, given) if corrected else None
    acceptance = model(d, 40, g)
    acceptance.weights[1].abs_().add_(0.5)
    acceptance.weights[0] = 1.5
    return ThroughputPolicy(acceptance, cost, 1.3, tables, longest)


def scores(g: torch.Generator) -> tuple[torch.Tensor, torch.Tensor]:
    """[16] each, garbage in row 0: sure, unsure and clamped ones, also 0 and 1 exactly."""
    confidence = torch.rand(16, generator=g) ** torch.rand(1, generator=g)
    confidence = torch.where(torch.rand(16, generator=g) < 0.1, confidence.round(), confidence)
    entropy = 3 * torch.rand(16, generator=g)
    entropy = torch.where(torch.rand(16, generator=g) < 0.2, 0.0, entropy)
    confidence[0] = entropy[0] = float("nan")
    return confidence, entropy


def experts(g: torch.Generator) -> torch.Tensor:
    """[16, TOP] int32, distinct in a row."""
    return torch.stack([torch.randperm(EXPERTS, generator=g)[:TOP] for _ in range(16)]).int()


def assert_equal_choices(policy: LengthPolicy, rooms, seed: int, device, count: int = CASES):
    """The chosen lengths, also those after the correction; returns all (w0, w)."""
    g, rule, lengths = draws(seed), Rule.of(policy, device), ours.Lengths.empty(device)
    seen = []
    for i in range(count):
        confidence, entropy = scores(g)
        ids, room = experts(g), rooms[i % len(rooms)]
        law = naive.select(policy, confidence[1:], entropy[1:], room)
        confidence[law.drafted + 1 :] = float("nan")  # nobody proposed these
        entropy[law.drafted + 1 :] = float("nan")
        left = torch.tensor(room, dtype=torch.int32, device=device)
        ours.select(rule, confidence.to(device), entropy.to(device), left, lengths)
        assert (int(lengths.nominal), int(lengths.u)) == (law.choice.w0, law.u)
        if rule.mean is not None:
            ours.correct(rule, ids.to(device), lengths)
        w = naive.correct(policy, law, ids.long())
        assert int(lengths.w) == w
        if isinstance(law.choice.prefix, list):
            found = lengths.prefix.tolist()
            assert found[0] == 1.0
            assert not any(found[law.drafted + 1 :])
            # one bit of a logarithm or an exponential, at most 15 times over
            assert found[1 : law.drafted + 1] == pytest.approx(law.choice.prefix, rel=1e-12)
        seen.append((law.choice.w0, w))
    return seen


@pytest.mark.parametrize("seed", range(3))
def test_the_paper_s_policy(seed, device):
    seen = assert_equal_choices(throughput(seed), [1000], seed, device)
    assert len({w0 for w0, _ in seen}) > 4
    assert {w - w0 for w0, w in seen} == {0, 1}


@pytest.mark.parametrize("room", range(18))
def test_every_room_left(room, device):
    policy = throughput(room)
    if room:
        assert_equal_choices(policy, [room], room, device, 2)
        return
    lengths = ours.Lengths.empty(device)
    some = torch.full((16,), 0.5, device=device)
    ours.select(Rule.of(policy, device), some, some, torch.zeros_like(lengths.w), lengths)
    assert (int(lengths.u), int(lengths.w)) == (0, 0)


@pytest.mark.parametrize(("d", "longest"), [(15, 8), (7, 8), (7, 3), (1, 2)])
def test_fewer_drafts_and_smaller_blocks(d, longest, device):
    assert_equal_choices(throughput(d, d, longest), [100, longest - 1], d, device, 6)


def test_without_tables_w_is_final(device):
    policy, lengths = throughput(3, corrected=False), ours.Lengths.empty(device)
    seen = assert_equal_choices(policy, [1000], 3, device, 5)
    assert all(w == w0 for w0, w in seen)
    rule, ids = Rule.of(policy, device), torch.zeros(16, TOP, dtype=torch.int32, device=device)
    with pytest.raises(ValueError, match="no correction"):
        ours.correct(rule, ids, lengths)


def test_ties_go_to_the_shorter(device):
    """Powers of two: a confidence of one half is its own odds of 1, which the weights pass on."""
    line = torch.tensor([[0.0, 1.0]]).expand(15, 2).contiguous()
    flat = AcceptanceModel(IsotonicCurves(line, line), torch.zeros(6))  # c = 1/2 always
    for at in (1, 2, 7, 14):
        cost = torch.zeros(17)
        for w in range(2, 17):  # G rises as C until at + 1, then the same again, then C rises more
            cost[w] = cost[w - 1] + 0.5 ** (w - 1) * (1 if w != at + 1 else 0.5)
        policy = ThroughputPolicy(flat, cost, 1.0, None, 16)
        half = torch.full((16,), 0.5)
        law = naive.select(policy, half[1:], half[1:], 99)
        lengths = ours.Lengths.empty(device)
        left = torch.tensor(99, dtype=torch.int32, device=device)
        ours.select(Rule.of(policy, device), half.to(device), half.to(device), left, lengths)
        assert int(lengths.nominal) == law.choice.w0 == max(2, at + 1)


def test_certain_drafts_and_hopeless_ones(device):
    """Prefixes that are exactly 1 or 0: all lengths tie, or only the cost counts."""
    line = torch.tensor([[0.0, 1.0]]).expand(15, 2).contiguous()
    for bias, cost in ((99.0, torch.arange(17.0)), (-800.0, torch.zeros(17))):
        weights = torch.tensor([bias, 0, 0, 0, 0, 0])
        policy = ThroughputPolicy(
            AcceptanceModel(IsotonicCurves(line, line), weights), cost, 1.0, None, 16
        )
        assert assert_equal_choices(policy, [1000], 1, device, 3) == [(2, 2)] * 3


@pytest.mark.parametrize("shared", range(TOP + 1))
def test_new_experts_decide(shared, device):
    """The draft's row shares some experts with a row before it; the tables turn at two new ones."""
    policy = throughput(0)
    turning = torch.tensor([-9.0, -9.0, 9.0, 9.0]).expand(16, -1).contiguous() * 1e3
    tables = CorrectionTables(0.0, 1.0, torch.zeros(16), turning)
    policy = ThroughputPolicy(policy.acceptance, policy.cost, policy.rho, tables, 16)
    rule, lengths = Rule.of(policy, device), ours.Lengths.empty(device)
    for w0 in range(2, 16):
        ids = torch.arange(100, 148, dtype=torch.int32).view(16, TOP)
        ids[w0, :shared] = ids[w0 - 1, :shared].flip(0)
        ids[w0 + 1 :] = ids[w0]  # rows after it say nothing
        lengths.nominal.fill_(w0)
        lengths.u.fill_(w0 + 1)
        lengths.w.fill_(w0)
        lengths.prefix.fill_(0.5)
        ours.correct(rule, ids.to(device), lengths)
        assert int(lengths.w) == w0 + (TOP - shared < 2)


@pytest.mark.parametrize("length", range(1, 17))
def test_fixed_lengths(length, device):
    for policy in (FixedLength(length), FixedLength(16, length)):
        assert_equal_choices(policy, [1, 2, length, 1000], length, device, 4)


@pytest.mark.parametrize("lengths", [tuple(range(2, 17)), dcut_lengths(16), (5, 9)])
@pytest.mark.parametrize("calibrated", [False, True])
def test_the_best_quotient(lengths, calibrated, device):
    g = draws(7)
    cost = torch.cat((torch.ones(1), 0.1 * torch.rand(16, generator=g))).cumsum(0)
    conditional = throughput(7).acceptance.conditional if calibrated else raw
    policy = RatioPolicy(cost, lengths, conditional)
    seen = assert_equal_choices(policy, [1000, 1000, 4], len(lengths), device, 12)
    assert len({w0 for w0, _ in seen}) > 1


@pytest.mark.parametrize(
    "policy",
    [EmaPolicy(), ThresholdPolicy(0.5), RatioPolicy(torch.ones(17), (2,), lambda c, h: c * 0.5),
     ThroughputPolicy(throughput(0).acceptance, torch.ones(17), 1.0, None, 16, ahead=2)],
    ids=lambda p: type(p).__name__,
)  # fmt: skip
def test_other_policies_are_refused(policy):
    with pytest.raises(ValueError, match="No kernel"):
        Rule.of(policy, "cpu")


@pytest.mark.parametrize("length", [1, 16])
def test_a_round_of_a_tile_fits(length):
    assert Rule.of(FixedLength(length), "cpu").length == length


@pytest.mark.parametrize("policy", [FixedLength(17), FixedLength(24, 4)])
def test_longer_rounds_are_refused(policy):
    with pytest.raises(ValueError, match="at most 16 inputs"):
        Rule.of(policy, "cpu")
