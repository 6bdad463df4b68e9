"""`generate --explain`: what is said of each round."""

from __future__ import annotations

import re

import pytest

from test_catalogue import PROFILE


@pytest.fixture
def profile(pair, tmp_path):
    """A profile that fits the `cycle` pair; its numbers are another's."""
    from dataclasses import replace

    import torch

    from hybridspec.profiles import pair_identity, runtime_identity

    found = pair("cycle")
    identity = pair_identity(found.target, found.draft)
    runtime = runtime_identity(torch.device("cpu"), torch.float32)
    experts = (tuple(float(n) for n in range(9)),) * 16  # as many as a token of this pair has
    fitting = replace(PROFILE, pair=identity, runtime=runtime, n_all_given=experts)
    fitting.save(tmp_path / "p.json")
    return tmp_path / "p.json"


def test_every_round_is_explained(command, pair, profile):
    got = command("generate", "to x", "--raw", "-n", "20", "--system", "hybridspec", "--explain",
                  "--profile", str(profile), *pair("cycle").options)  # fmt: skip
    assert got.code == 0, got.err
    rounds = re.findall(
        r"^round (\d+): w0 (\d+), Stage 0 (\d+).*; w (\d+), A (\d+)$", got.err, re.M
    )
    assert [int(r[0]) for r in rounds] == list(range(1, len(rounds) + 1))
    assert f", {len(rounds)} rounds," in got.err
    for _, w0, u, w, accepted in (map(int, r) for r in rounds):
        assert w0 <= w <= u <= w0 + 1
        assert accepted < w
    assert re.search(r"^  confidence +\d\.\d\d", got.err, re.M)
    assert re.search(r"^  score +-?\d+\.\d\d", got.err, re.M)


def test_the_document_has_it_too(command, pair, profile):
    got = command("generate", "to x", "--raw", "-n", "20", "--system", "hybridspec", "--explain",
                  "--json", "--profile", str(profile), *pair("cycle").options)  # fmt: skip
    rounds = got.json["stats"]["explain"]
    assert len(rounds) == got.json["stats"]["rounds"]
    first = rounds[0]
    assert len(first["confidence"]) == len(first["prefix"]) == 9
    best = max(first["scores"], key=first["scores"].__getitem__)
    assert int(best) == first["w0"]


@pytest.mark.parametrize("system", ["ar", "static:3"])
def test_a_system_that_weighs_nothing_has_little_to_say(command, pair, system):
    got = command("generate", "to x", "--raw", "-n", "9", "--system", system, "--explain",
                  *pair("cycle").options)  # fmt: skip
    assert "round 1: w0" in got.err
    assert f"  why        a fixed length of {system[-1] if system != 'ar' else 1}\n" in got.err
    assert "score" not in got.err


@pytest.mark.parametrize(
    ("system", "why"),
    [
        ("hybridspec", "then perhaps one more draft, by layer 0's experts"),
        ("hybridspec+shrink:2", "then perhaps up to 2 more drafts or fewer"),
        ("nominal-only", "tokens a ms"), ("dcut", "of the round alone, of w = 4, 8, 12, 16"),
        ("evict", "of the round alone, of every length"), ("specdecpp:0.4", "p is 0.6 or more"),
        ("vllm-adaptive", "the proposals before this one"), ("ema", "were accepted a round"),
        ("cascade", "a trial of w = 1"), ("auto", "tokens a ms of late"),
        ("auto+correct", "eta = 0.0000"),
    ],
)  # fmt: skip
def test_every_system_says_what_it_goes_by(command, pair, profile, system, why):
    got = command("generate", "to x", "--raw", "-n", "12", "--system", system, "--explain",
                  "--profile", str(profile), *pair("cycle").options)  # fmt: skip
    assert got.code == 0, got.err
    assert why in got.err
    weighs = system.partition(":")[0] not in ("specdecpp", "vllm-adaptive", "ema", "cascade")
    assert ("  score " in got.err) == weighs


def test_nothing_is_said_unasked(command, pair):
    got = command("generate", "to x", "--raw", "-n", "9", *pair("cycle").options)
    assert "round 1" not in got.err
