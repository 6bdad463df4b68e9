"""A sequence's memory, refused: what was asked for, and what would fit."""

from __future__ import annotations

import re

import pytest
import torch

from builders import random_drafter, random_target
from hybridspec.engine import Engine
from hybridspec.errors import RequestError
from hybridspec.runtime import room
from hybridspec.runtime.state import DrafterState, TargetState
from scripted import TINY, TINY_DRAFTER


@pytest.fixture
def small(monkeypatch):
    """A device on which so many bytes are free, and which allocates no more."""

    def of(free: int) -> None:
        plain = room._states

        def states(target, drafter, context, joint, device):
            if device.type != "meta" and room.nbytes(target, drafter, context, joint) > free:
                raise torch.OutOfMemoryError("no room")
            return plain(target, drafter, context, joint, device)

        monkeypatch.setattr(room, "_states", states)
        monkeypatch.setattr(room, "free_bytes", lambda device: free)

    return of


@pytest.mark.parametrize("drafter", [None, random_drafter(TINY_DRAFTER)], ids=["alone", "pair"])
def test_what_fits_is_named_and_fits(small, drafter):
    target = random_target(TINY)
    asked = room.nbytes(target, drafter, 512, None)
    small(asked // 2)
    with pytest.raises(RequestError, match="512 tokens takes") as told:
        Engine(target, drafter, max_context=512)
    fits = int(re.search(r"about (\d+) tokens fit", str(told.value))[1])
    assert 0 < fits < 512
    engine = Engine(target, drafter, max_context=fits)
    assert engine.nbytes <= asked // 2
    assert room.nbytes(target, drafter, fits + 512 // 16, None) > asked // 2


def test_nothing_fits(small):
    small(10)
    with pytest.raises(RequestError, match="not even a short one fits"):
        Engine(random_target(TINY), max_context=64)


def test_what_is_reckoned_is_what_is_allocated():
    target, drafter = random_target(TINY), random_drafter(TINY_DRAFTER)
    own, draft = room.states(target, drafter, 100, None)
    assert isinstance(own, TargetState)
    assert isinstance(draft, DrafterState)
    assert own.nbytes + draft.nbytes == room.nbytes(target, drafter, 100, None)


def test_other_errors_are_not_taken_for_it(monkeypatch):
    def broken(*about):
        raise RuntimeError("something else")

    monkeypatch.setattr(room, "_states", broken)
    with pytest.raises(RuntimeError, match="something else"):
        Engine(random_target(TINY), max_context=64)
