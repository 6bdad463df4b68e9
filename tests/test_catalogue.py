"""Systems that need a profile: what their names mean, and what is refused."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hybridspec.catalogue import CATALOGUE
from hybridspec.errors import RequestError
from hybridspec.policy.baselines import LaggedRatioPolicy, RatioPolicy, ThresholdPolicy
from hybridspec.policy.hybrid import ThroughputPolicy
from hybridspec.policy.length import FixedLength
from hybridspec.policy.online import OnlinePolicy
from hybridspec.policy.online_correction import CorrectedOnlinePolicy
from hybridspec.policy.profile import Cost, Profile
from hybridspec.systems import parse_system

COST = Cost({2: 3.0, 16: 9.0}, (2.0, 0.4, 0.0), 1.5, 2.0, 0.5, 5, 9)
PROFILE = Profile(
    pair={"target": "a", "drafter": "b"},
    runtime={"device": "cpu", "dtype": "float32"},
    curves_x=((0.0, 1.0),) * 15,
    curves_y=((0.1, 0.9),) * 15,
    weights=(-1.0, 3.0, 0.0, 0.0, -0.1, -0.1),
    cost={"exact/eager": COST, "per-token/eager": COST, "replay/eager": COST},
    draft_ms=(1.5,) * 15,
    s_ms=0.1,
    eta_ms=0.0,
    n_all_mean=(1.0,) * 16,
    n_all_given=((0.0, 1.0, 2.0),) * 16,
    temperatures=(1.0,) * 15,
)
MEANT = {
    "static": FixedLength, "dcut": RatioPolicy, "dcut:angelslim": RatioPolicy, "evict": RatioPolicy,
    "evict+replayssm": RatioPolicy, "evict-cal": RatioPolicy, "evict-sts": RatioPolicy,
    "vllm-adaptive": LaggedRatioPolicy,
    "specdecpp:0.4": ThresholdPolicy, "nominal-only": ThroughputPolicy,
    "hybridspec": ThroughputPolicy, "hybridspec:7": ThroughputPolicy,
    "hybridspec+look:3": ThroughputPolicy, "hybridspec+look:2:7": ThroughputPolicy,
    "hybridspec+shrink": ThroughputPolicy, "hybridspec+shrink:0": ThroughputPolicy,
    "auto": OnlinePolicy, "auto+correct": CorrectedOnlinePolicy,
}  # fmt: skip


LONGEST = {
    "static": 5, "nominal-only": 10, "hybridspec": 10, "hybridspec:7": 8, "auto": 10,
    "hybridspec+look:3": 10, "hybridspec+look:2:7": 8, "hybridspec+shrink": 10,
    "hybridspec+shrink:0": 10, "auto+correct": 10,
}  # fmt: skip


def test_every_system_is_in_this_table():
    assert {name.partition(":")[0] for name in MEANT} == set(CATALOGUE)


@pytest.mark.parametrize("name", MEANT)
def test_what_a_name_means(name):
    system = parse_system(name, 16, PROFILE)
    assert isinstance(system.policy, MEANT[name])
    assert system.name == name
    assert system.policy.longest == LONGEST.get(name, 16)


def test_each_system_pays_its_own_verifier():
    verifiers = {name: parse_system(name, 16, PROFILE).verifier for name in MEANT}
    other = {name: v for name, v in verifiers.items() if v != "exact"}
    baselines = ("dcut", "dcut:angelslim", "evict")
    assert other == dict.fromkeys(baselines, "per-token") | {"evict+replayssm": "replay"}


def test_lengths_of_the_ratio_rules():
    lengths = {n: parse_system(n, 16, PROFILE).policy.lengths for n in MEANT if "d" in n[:1]}
    assert lengths == {"dcut": (4, 8, 12, 16), "dcut:angelslim": (5, 9, 13, 16)}
    assert parse_system("evict", 16, PROFILE).policy.lengths == tuple(range(2, 17))


def test_who_looks_ahead_and_how_far():
    ahead = {n: k for n in MEANT if (k := parse_system(n, 16, PROFILE).policy.lookahead)}
    assert ahead == {
        "hybridspec": 1, "hybridspec:7": 1, "hybridspec+look:3": 3, "hybridspec+look:2:7": 2,
        "hybridspec+shrink": 1, "auto+correct": 1,
    }  # fmt: skip


def test_who_may_shrink():
    policies = {n: parse_system(n, 16, PROFILE).policy for n in MEANT}
    assert {n for n, p in policies.items() if getattr(p, "shrink", False)} == {
        "hybridspec+shrink", "hybridspec+shrink:0",
    }  # fmt: skip


@pytest.mark.parametrize("name", sorted({*MEANT} - {"static"}))
def test_without_a_profile_the_way_to_one_is_named(name):
    with pytest.raises(RequestError, match=r"needs a calibration profile .*hybridspec calibrate"):
        parse_system(name, 16)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("evict:3", "takes nothing"), ("evict:", "takes nothing"), ("evict:3:exact", "takes noth"),
        ("hybridspec:x:exact", "number of drafts"), ("auto:0", "1 to 15"),
        ("auto:x", "number of drafts"),
        ("hybridspec+look", "from 1 to 15"), ("hybridspec+look:0", "from 1 to 15"),
        ("hybridspec+shrink:16", "from 0 to 15"), ("hybridspec+look:2:0", "number of drafts"),
        ("dcut:4", "angelslim or nothing"), ("specdecpp", "threshold"),
        ("specdecpp:1.5", "threshold"), ("specdecpp:x", "threshold"), ("specdecpp:nan", "thresh"),
    ],
)  # fmt: skip
def test_arguments_that_are_none(name, words):
    with pytest.raises(RequestError, match=words):
        parse_system(name, 16, PROFILE)


def test_a_profile_of_another_block_or_without_the_costs_is_refused():
    with pytest.raises(RequestError, match="for 15 drafts and the drafter proposes 7"):
        parse_system("auto", 8, PROFILE)
    bare = replace(PROFILE, cost={"block/eager": COST})
    with pytest.raises(RequestError, match="no costs of the verifier exact"):
        parse_system("auto", 16, bare)


def test_a_verifier_named_last_brings_its_own_costs():
    """Table 3's GDN variant: the same policy on the default verifier, priced as it runs there."""
    slower = replace(COST, rho=COST.rho / 2)
    profile = replace(PROFILE, cost={"exact/eager": COST, "per-token/eager": slower})
    own = parse_system("hybridspec:7", 16, profile)
    variant = parse_system("hybridspec:7:per-token", 16, profile)
    assert (own.verifier, variant.verifier) == ("exact", "per-token")
    assert type(variant.policy) is type(own.policy)
    assert variant.policy.drafts() == own.policy.drafts() == 7
    assert variant.policy.rho == own.policy.rho / 2
    assert parse_system("hybridspec:per-token", 16, profile).policy.drafts() == COST.drafts
    assert parse_system("evict:exact", 16, profile).verifier == "exact"
    with pytest.raises(RequestError, match="no costs of the verifier block, on which auto:block"):
        parse_system("auto:block", 16, profile)
