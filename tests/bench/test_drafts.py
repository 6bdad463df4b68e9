from __future__ import annotations

import pytest

from hybridspec.bench.drafts import judge


@pytest.mark.parametrize(
    ("drafts", "w", "rest", "judged", "missed"),
    [
        ([1, 2, 3, 4, 5], 3, [1, 2, 3, 4, 9, 9], 3, 2),  # d_3 and d_4 would have been accepted
        ([1, 2, 3, 4, 5], 3, [1, 8, 3, 4, 5, 9], 3, 0),  # d_2, verified, is wrong: so are all after
        ([1, 2, 3, 4, 5], 3, [1, 2, 8, 4, 5, 9], 3, 0),
        ([1, 2, 3, 4, 5], 6, [1, 2, 3, 4, 5], 0, 0),  # nothing was left unverified
        ([1, 2, 3, 4, 5], 2, [1, 2, 3], 2, 2),  # the answer ends: d_4 and d_5 are left out
        ([1, 2, 3, 4, 5], 4, [1], 0, 0),
        ([1, 2, 3], 1, [1, 2, 3, 4], 3, 3),  # a round that verified no draft
        ([], 1, [1, 2], 0, 0),
    ],
)
def test_unverified_drafts_are_held_against_the_answer(drafts, w, rest, judged, missed):
    assert judge(drafts, w, rest) == (judged, missed)
