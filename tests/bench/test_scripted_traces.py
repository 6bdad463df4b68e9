"""The file of recorded answers, and the one that comes with the package."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from bench.scripted_models import made_up
from hybridspec.bench.scripted.paper import CATEGORIES, DFLASH_AL, PAIRS
from hybridspec.bench.scripted.traces import Fit, Traces
from hybridspec.bench.scripted.verb import TRACES
from hybridspec.errors import RequestError

FIT = Fit(((0.0, 1.0),) * 15, ((0.1, 0.9),) * 15, (0.0, 1.0, 0.0, 0.0, 0.0, 0.0), (1.0,) * 15,
          {"error": 0.1})  # fmt: skip


def parts(seed: int):
    whole = made_up(500, seed)
    return [whole.take(whole.prompt == number) for number in range(10)]


def test_what_is_written_is_read(tmp_path):
    answers = {"calibration": parts(0), "test": parts(1)[:4]}
    Traces(answers, {"qwen3.6": FIT}, {"max_tokens": 50}).save(tmp_path / "t.npz")
    found = Traces.load(tmp_path / "t.npz")
    assert found.fits == {"qwen3.6": FIT}
    assert found.about == {"max_tokens": 50}
    assert [*found.answers] == ["calibration", "test"]
    for split, written in answers.items():
        assert len(found.answers[split]) == len(written)
        for ours, theirs in zip(found.answers[split], written, strict=True):
            assert (ours.accepted == theirs.accepted).all()
            assert (ours.left == np.arange(50, 0, -1)).all()
            assert len(set(ours.prompt.tolist())) == 1
            # a step of the code is 0.08 of log odds, so half of it times at most 1/4
            assert np.abs(ours.confidence - theirs.confidence).max() < 0.0105
            # a step is 0.075 of the logarithm
            assert np.abs(np.log(ours.entropy / theirs.entropy)).max() < 0.0375


@pytest.mark.parametrize("text", [b"", b"no numbers"])
def test_a_file_that_is_none_is_refused(tmp_path, text):
    path = tmp_path / "t.npz"
    path.write_bytes(text)
    with pytest.raises(RequestError, match=r"t\.npz cannot be read"):
        Traces.load(path)
    with pytest.raises(RequestError, match=r"bench\.scripted\.record"):
        Traces.load(Path("/nowhere/t.npz"))


@pytest.mark.parametrize("pair", PAIRS)
@pytest.mark.parametrize("split", ["calibration", "test"])
def test_the_packages_traces_have_the_published_means(pair, split):
    found = Traces.load(TRACES).of(pair, split, 2000)
    assert [*found] == [*CATEGORIES]
    for category, part in found.items():
        wanted = DFLASH_AL[pair][category]
        at = part.trace.walk(16)
        mean = float(part.trace.accepted[at].mean()) + 1
        assert mean == pytest.approx(wanted, rel=0.01)
        # of 300 to 600 rounds hardly any may be there twice
        assert part.distinct > 0.8 * len(part.starts)


def test_the_packages_fit_holds_on_traces_that_it_has_not_seen():
    for fit in Traces.load(TRACES).fits.values():
        assert fit.data["test_error"]["model"] < 0.05  # expected calibration error
