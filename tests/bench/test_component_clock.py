from __future__ import annotations

from itertools import count

import pytest
import torch

from builders import fill, target_config
from hybridspec.bench import component_clock
from hybridspec.bench.component_clock import Clock, boundaries, told_apart
from hybridspec.model.target import Target
from hybridspec.runtime.state import TargetState

CPU = torch.device("cpu")
LINEAR, FULL = 6, 2  # layers of the small target


@pytest.fixture
def ticking(monkeypatch):
    """A clock that is a second later each time it is read."""
    ticks = count()
    monkeypatch.setattr(component_clock.time, "perf_counter", lambda: float(next(ticks)))


@pytest.fixture(scope="module")
def target():
    target = Target(target_config())
    fill(target, 0)
    target.prepare()
    return target


def verify(target):
    slot = TargetState(target.config, 32).slot()
    target.prefill(torch.arange(5), slot)
    stage0 = target.stage0(torch.tensor([7, 8, 9]), slot, "exact")
    return target.stage1(stage0, 2, slot, "exact").logits


def test_time_counts_for_the_innermost_component(ticking):
    clock = Clock(CPU)
    norm = clock.around("other", lambda: None)
    mix = clock.around("gdn", lambda: (norm(), norm()))
    clock.start()
    mix()
    # to mix 1 s, to a norm 1, in it 1, to the next 1, in it 1, to mix's end 1, to the end 1
    assert clock.stop() == {"gdn": 3e3, "moe": 0.0, "attention": 0.0, "other": 4e3}


def test_a_clock_begins_anew(ticking):
    clock = Clock(CPU)
    for _ in range(2):
        clock.start()
        assert sum(clock.stop().values()) == 1e3


def test_every_layer_of_a_split_pass_is_counted_once(target, ticking):
    slot = TargetState(target.config, 32).slot()
    clock = Clock(CPU)
    with told_apart(target, clock):
        clock.start()
        stage0 = target.stage0(torch.tensor([7, 8, 9]), slot, "exact")
        target.stage1(stage0, 2, slot, "exact")
        spent = clock.stop()
    # a mixer has a second before its norm and one after; router and experts have one each
    assert spent["gdn"] == 2e3 * LINEAR
    assert spent["attention"] == 2e3 * FULL
    assert spent["moe"] == 2e3 * (LINEAR + FULL)
    # of each layer: before the mixer, in its norm, before the router, before the experts
    assert spent["other"] == 4e3 * (LINEAR + FULL) + 1e3


def test_the_logits_are_the_same_and_the_target_is_left_as_it_was(target):
    before = [dict(vars(owner)) for owner, _, _ in boundaries(target)]
    plain = verify(target)
    clock = Clock(CPU)
    clock.start()
    with told_apart(target, clock):
        assert torch.equal(verify(target), plain)
    clock.stop()
    with pytest.raises(RuntimeError, match="stop"), told_apart(target, clock):
        raise RuntimeError("stop")
    assert [dict(vars(owner)) for owner, _, _ in boundaries(target)] == before


class FakeGpu:
    """Stands in for `torch.cuda`: an event's time is known once the device was waited for."""

    def __init__(self):
        self.recorded, self.done = 0, 0

    def synchronize(self, device):
        assert device.type == "cuda"
        self.done = self.recorded

    def current_stream(self, device):
        return device

    def Event(gpu, *, enable_timing):
        assert enable_timing

        class Event:
            def record(self, stream):
                gpu.recorded += 1
                self.place = gpu.recorded

            def elapsed_time(self, later):
                assert max(self.place, later.place) <= gpu.done, "read before it was done"
                return 2.0 * (later.place - self.place)  # ms

        return Event()


def test_on_a_gpu_events_are_read_once_the_device_is_done(monkeypatch):
    gpu = FakeGpu()
    for name in ("synchronize", "current_stream", "Event"):
        monkeypatch.setattr(component_clock.torch.cuda, name, getattr(gpu, name))
    clock = Clock(torch.device("cuda"))
    norm = clock.around("other", lambda: None)
    mix = clock.around("gdn", norm)
    clock.start()
    mix()
    assert clock.stop() == {"gdn": 4.0, "moe": 0.0, "attention": 0.0, "other": 6.0}
