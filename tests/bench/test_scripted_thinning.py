"""Thinned traces: their mean, and that what is kept is kept whole."""

from __future__ import annotations

import numpy as np
import pytest

from bench.scripted_models import made_up
from hybridspec.bench.scripted.thinning import thinned
from hybridspec.errors import RequestError

SOURCE = made_up(5000)
STARTS = SOURCE.walk(16)
STARTS = STARTS[SOURCE.whole[STARTS]]
OWN = float(SOURCE.accepted[STARTS].mean()) + 1


@pytest.mark.parametrize("mean", [1.5, 2.5, 3.33, 4.79, 6.43])
@pytest.mark.parametrize("positions", [1000, 6000])
def test_a_walk_of_whole_blocks_has_the_mean(mean, positions):
    found = thinned(SOURCE, mean, positions)
    at = found.trace.walk(16)
    assert at.tolist() == found.starts.tolist()  # from round to round
    assert float((found.trace.accepted[at] + 1).mean()) == pytest.approx(mean, rel=0.01)
    assert len(found.trace) == pytest.approx(positions, rel=0.02)
    assert (found.tilt > 0) == (mean > OWN)


def test_positions_keep_their_scores_and_their_neighbours():
    found = thinned(SOURCE, 4.79, 2000)
    # the made-up confidence says where a position was
    was = np.round(found.trace.confidence[:, 0] * (len(SOURCE) + 1)).astype(int) - 1
    assert (found.trace.accepted == SOURCE.accepted[was]).all()
    assert (found.trace.entropy == SOURCE.entropy[was]).all()
    inside = np.ones(len(was), bool)
    inside[found.starts] = False
    assert (was[inside] == was[np.flatnonzero(inside) - 1] + 1).all()
    assert set(was[found.starts]) <= set(STARTS.tolist())


def test_rounds_stay_in_order_and_none_is_there_twice_where_that_suffices():
    found = thinned(SOURCE, 3.5, 1000)
    was = np.round(found.trace.confidence[found.starts, 0] * (len(SOURCE) + 1))
    assert (np.diff(was) > 0).all()
    assert found.distinct == len(found.starts) < found.rounds == len(STARTS)


def test_another_phase_keeps_others():
    one, other = (thinned(SOURCE, 4.0, 1000, phase) for phase in (0.0, 0.5))
    assert one.trace.confidence[:, 0].tolist() != other.trace.confidence[:, 0].tolist()
    again = thinned(SOURCE, 4.0, 1000)
    assert again.trace.confidence.tolist() == one.trace.confidence.tolist()


def test_a_mean_that_no_choice_has_is_refused():
    short = SOURCE.take(SOURCE.accepted < 3)
    with pytest.raises(RequestError, match="Record more answers"):
        thinned(short, 6.0, 1000)
