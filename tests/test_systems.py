"""Systems by name: each a length policy and a verifier, and a sentence for what is none."""

from __future__ import annotations

import pytest

from hybridspec.errors import RequestError
from hybridspec.policy.length import FixedLength
from hybridspec.systems import parse_system

GOOD = {
    "ar": (1, "exact"),
    "dflash": (16, "per-token"),
    "length16": (16, "exact"),
    "replayssm": (16, "replay"),
    **{f"static:{w}": (w, "exact") for w in range(1, 17)},
    "static:5:exact": (5, "exact"),
    "static:5:block": (5, "block"),
    "static:5:per-token": (5, "per-token"),
    "static:5:replay": (5, "replay"),
}
UNKNOWN = ["", "AR", "ar:1", "dflash:16", "greedy", "hybrid", "ar ", " ar", ":5", "ar:", "dflash:"]
LENGTHS = ["", "0", "17", "-1", "5.0", "five", "1e1", "٣", "²", "+5", " 5", "99999999999"]


@pytest.mark.parametrize("name", GOOD)
def test_what_a_name_means(name):
    system, (longest, verifier) = parse_system(name, 16), GOOD[name]
    assert (system.name, system.verifier) == (name, verifier)
    assert system.policy == FixedLength(longest)
    assert system.drafts == (longest > 1)


@pytest.mark.parametrize("block_size", [2, 8, 16])
def test_the_drafters_block_bounds_the_length(block_size):
    assert parse_system("dflash", block_size).policy.longest == block_size
    assert parse_system(f"static:{block_size}", block_size).policy.longest == block_size
    with pytest.raises(RequestError, match=f"1 to {block_size} after a colon"):
        parse_system(f"static:{block_size + 1}", block_size)


@pytest.mark.parametrize("name", UNKNOWN)
def test_unknown_names(name):
    with pytest.raises(RequestError, match=r"unknown; expected one of: ar .*dflash .*static:W"):
        parse_system(name, 16)


@pytest.mark.parametrize("argument", LENGTHS)
def test_lengths_that_are_none(argument):
    with pytest.raises(RequestError, match="static takes a number of target inputs from 1 to 16"):
        parse_system(f"static:{argument}", 16)


@pytest.mark.parametrize("verifier", ["", "5", "Block", "replayed"])
def test_unknown_verifiers(verifier):
    with pytest.raises(RequestError, match=r"expected one of: .*exact"):
        parse_system(f"static:5:{verifier}", 16)


def test_a_length_is_asked_for():
    with pytest.raises(RequestError, match="after a colon, such as static:5"):
        parse_system("static", 16)


@pytest.mark.parametrize("name", ["dflash", "static:2", "static:16"])
def test_without_a_drafter_only_plain_decoding(name):
    with pytest.raises(RequestError, match=r"needs a drafter .* --draft"):
        parse_system(name, None)
    assert not parse_system("ar", None).drafts
    assert not parse_system("static:1", None).drafts
