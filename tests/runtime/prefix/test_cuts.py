"""Where prompts are cut: by what lies before a cut, and the token behind it, alone."""

from __future__ import annotations

from itertools import pairwise

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from hybridspec.core import PREFILL_CHUNK
from hybridspec.runtime.prefix.cuts import GPU_SPACING, SPACING, Cuts

CASES = [
    ([], []),
    ([1, 1, 1, 1, 1], []),  # five tokens are one pass
    ([1, 1, 1, 1, 1, 1], [5]),
    ([9, 1, 9, 1], [2]),  # a prompt's first message opens no pass
    ([9, 1, 1, 1, 1, 9, 1], [5]),
    ([9, 9, 1, 1, 1, 1, 1, 1], [1, 6]),  # counted from the cut before
]


@pytest.mark.parametrize(("ids", "cuts"), CASES)
def test_cuts_of_a_prompt(ids, cuts):
    assert Cuts(5, {9}).of(ids) == cuts


@pytest.mark.parametrize(("spacing", "cuts"), [(1, [2, 3, 5]), (2, [2, 5]), (3, [3]), (4, [5])])
def test_messages_close_behind_a_cut_are_not_cut_off(spacing, cuts):
    assert Cuts(50, {9}, spacing).of([1, 1, 9, 9, 1, 9]) == cuts


@given(
    st.lists(st.integers(7, 9), max_size=60),
    st.lists(st.integers(7, 9), max_size=20),
    st.lists(st.integers(7, 9), max_size=20),
    st.integers(1, 12),
    st.integers(1, 5),
)
def test_what_prompts_share_is_cut_alike(shared, ours, theirs, chunk, spacing):
    cuts = Cuts(chunk, {9}, spacing)
    within = [
        [cut for cut in cuts.of(shared + rest) if cut < len(shared)] for rest in (ours, theirs)
    ]
    assert within[0] == within[1]
    whole = [0, *cuts.of(shared + ours), len(shared + ours)]
    assert all(b - a <= chunk for a, b in pairwise(whole))


@pytest.mark.parametrize(("kind", "spacing"), [("cpu", SPACING), ("cuda", GPU_SPACING)])
def test_those_of_a_model(kind, spacing):
    cuts = Cuts.by_device(torch.device(kind), torch.float32, [3])
    assert (cuts.chunk, cuts.spacing, cuts.marks) == (PREFILL_CHUNK, spacing, {3})
