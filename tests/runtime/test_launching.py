"""Which answers stay on the device, and what is said of the others."""

from __future__ import annotations

import logging
from unittest.mock import Mock

import pytest

from builders import random_drafter, random_target
from hybridspec.core import SamplingParams
from hybridspec.engine import Engine
from hybridspec.errors import RequestError
from hybridspec.kernels import support
from hybridspec.policy.baselines import ThresholdPolicy, raw
from hybridspec.policy.length import FixedLength
from hybridspec.runtime.device.memory import STOPS
from hybridspec.runtime.device.runs import MOST
from hybridspec.runtime.launched import LaunchedTarget
from hybridspec.runtime.launched_drafter import LaunchedDrafter
from hybridspec.systems import System
from scripted import TINY, TINY_DRAFTER

PARAMS = SamplingParams(max_tokens=4)


@pytest.fixture(scope="module")
def engine() -> Engine:
    target = LaunchedTarget(random_target(TINY))
    drafter = LaunchedDrafter(random_drafter(TINY_DRAFTER), target)
    return Engine(target, drafter, max_context=64, launcher="loop")


@pytest.fixture
def told(monkeypatch, caplog):
    """What is said."""
    monkeypatch.setattr(support, "_said", {})
    caplog.set_level(logging.WARNING, "hybridspec")
    return caplog


def rounds(engine: Engine, system: str | System, params=PARAMS, **options) -> str:
    stream = engine.stream([1, 2, 3], params, system=system, **options)
    stream.close()
    return type(stream._rounds).__name__


@pytest.mark.parametrize(
    "system", ["ar", "static:1", "static:16", "length16", "dflash", "replayssm", "static:3:block"]
)
def test_systems_that_stay_on_the_device(engine, told, system):
    assert rounds(engine, system) == "DeviceRounds"
    assert not told.records


@pytest.mark.parametrize(
    "system", ["ema", "cascade", System("own", ThresholdPolicy(0.5, raw), "exact")], ids=str
)
def test_policies_without_a_kernel_are_led_by_the_host_which_is_said_once(engine, told, system):
    for _ in range(2):
        assert rounds(engine, system) == "Rounds"
    (record,) = told.records
    assert "led by the host" in record.message
    assert "No kernel chooses lengths as" in record.message


@pytest.mark.parametrize("option", ["explain", "keep_drafts"])
def test_what_is_asked_of_the_host(engine, told, option):
    assert rounds(engine, "static:3", **{option: True}) == "Rounds"
    assert "Explanations and kept drafts" in told.records[0].message


@pytest.mark.parametrize("asked", [{"presence_penalty": 1.0}, {"logprobs": 0},
                                   {"logit_bias": {1: 1.0}}])  # fmt: skip
def test_what_is_done_with_rows_is_done_by_the_host(engine, told, asked):
    for _ in range(2):
        assert rounds(engine, "static:3", SamplingParams(max_tokens=4, **asked)) == "SteeredRounds"
    (record,) = told.records
    assert "Penalties, bias, grammars and log-probabilities" in record.message
    assert rounds(engine, "static:3") == "DeviceRounds"


def test_too_many_stop_ids(engine, told):
    few, many = (SamplingParams(stop_token_ids=tuple(range(n))) for n in (STOPS, STOPS + 1))
    assert rounds(engine, "static:3", few) == "DeviceRounds"
    assert rounds(engine, "static:3", many) == "Rounds"
    assert f"More than {STOPS} stop ids" in told.records[0].message


def test_a_drafter_without_kernels_leaves_plain_decoding(told):
    target = LaunchedTarget(random_target(TINY))
    engine = Engine(target, random_drafter(TINY_DRAFTER), max_context=64, launcher="switch")
    assert rounds(engine, "ar") == "DeviceRounds"
    assert rounds(engine, "static:3") == "Rounds"
    assert "The drafter's proposals do not run as kernels here." in told.records[0].message


def test_a_target_without_kernels_is_led_by_the_host(told):
    engine = Engine(random_target(TINY), max_context=64, launcher="eager")
    assert rounds(engine, "ar") == "Rounds"
    assert "not by the launcher eager: " in told.records[0].message
    assert engine.generate([1, 2, 3], PARAMS).token_ids


def test_the_default_on_a_cpu_is_the_host_which_nobody_misses(told):
    for target in (random_target(TINY), LaunchedTarget(random_target(TINY))):
        made = Engine(target, max_context=64)
        assert rounds(made, "ar") == "Rounds"
        assert made.launcher == "host"
    assert not told.records


def test_an_engine_says_who_leads(engine):
    assert engine.launcher == "loop"


@pytest.mark.parametrize("launcher", ["graph", "", None, 3])
def test_an_unknown_launcher(launcher):
    with pytest.raises(RequestError, match="auto or host or loop or switch or eager"):
        Engine(random_target(TINY), max_context=64, launcher=launcher)


def test_a_system_of_one_s_own_a_request_does_not_pile_up_recordings(engine, monkeypatch):
    runs = engine._launching.runs
    made = []
    monkeypatch.setattr(runs, "_made", lambda *about: made.append(Mock()) or made[-1])
    stream = engine.stream([1, 2, 3], PARAMS)
    stream.close()
    systems = [System("own", FixedLength(1), "exact") for _ in range(5 * MOST)]
    for system in systems:
        assert runs.refusal(system) is None
        assert runs.of(system, stream._sequence) is made[-1]
    assert len(made) == 5 * MOST
    assert runs.of(systems[-MOST], stream._sequence) is made[-MOST]
    assert len(runs._known) == MOST
    assert len(runs._plans) <= 4 * MOST
    runs.of(systems[0], stream._sequence)
    assert len(made) == 5 * MOST + 1


@pytest.mark.parametrize(("gpu", "reason"), [(False, "there is no GPU"), (True, "on a CPU")])
def test_without_a_gpu_no_package_is_missed(told, monkeypatch, gpu, reason):
    monkeypatch.setattr("hybridspec.runtime.launching.installed", lambda package: False)
    monkeypatch.setattr("torch.cuda.is_available", lambda: gpu)
    Engine(random_target(TINY), max_context=64, launcher="loop")
    (said,) = (record.getMessage() for record in told.records)
    assert "launcher loop" in said
    assert reason in said
    assert "Triton" not in said
