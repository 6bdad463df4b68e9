"""What is said where other work shares the cores with torch's threads."""

from __future__ import annotations

import os

import pytest
import torch

from hybridspec import crowd
from hybridspec.cli import loading
from hybridspec.crowd import Crowd
from hybridspec.doctor.environment import threads
from hybridspec.doctor.setting import Setting


@pytest.fixture
def here(monkeypatch):
    """`here(threads, cores, load)` makes this machine one of those."""

    def make(threads: int, cores: int, load: float) -> None:
        monkeypatch.setattr(torch, "get_num_threads", lambda: threads)
        monkeypatch.setattr(crowd, "cores", lambda: cores)
        monkeypatch.setattr(os, "getloadavg", lambda: (load, 0.0, 0.0))

    loading._once.cache_clear()
    yield make
    loading._once.cache_clear()


def generated(command, pair) -> tuple[str, str]:
    got = command("generate", "x", "-n", "4", "--system", "ar", *pair("cycle").options)
    assert got.code == 0
    return got.out, got.err


def test_generate_says_it_once_and_changes_nothing(command, pair, here):
    here(2, 2, 1.9)
    text, quiet = generated(command, pair)
    assert "OMP_NUM_THREADS" not in quiet
    here(2, 2, 2.0)
    again, said = generated(command, pair)
    (line,) = (line for line in said.splitlines() if "OMP_NUM_THREADS=1" in line)
    assert line.startswith("Note: other work runs here (load average 2.0, 2 cores) and torch's 2 t")
    assert line.count(". ") == 0  # one sentence
    assert again == text
    assert "OMP_NUM_THREADS" not in generated(command, pair)[1]


def test_chat_says_it(command, pair, here):
    here(2, 2, 5.0)
    got = command("chat", "-n", "2", *pair("cycle").options, stdin=b"a\n")
    assert got.code == 0
    assert got.err.count("OMP_NUM_THREADS=1") == 1


@pytest.mark.parametrize(("threads", "load"), [(1, 9.0), (2, 3.9)])
def test_one_thread_or_idle_cores_need_no_word(threads, load, here):
    here(threads, 4, load)
    assert not Crowd.here().slows


def test_a_system_without_a_load_average_is_no_crowd(monkeypatch):
    monkeypatch.delattr(os, "getloadavg")
    assert Crowd.here().load is None
    assert not Crowd.here().slows


@pytest.mark.parametrize(
    ("device", "load", "state"), [("cpu", 6.5, "note"), ("cpu", 0.5, "OK"), ("cuda", 6.5, "OK")]
)
def test_doctor_has_a_line(device, load, state, here):
    here(3, 2, load)
    (finding,) = threads(Setting(None, None, None, torch.device(device), torch.float32))
    assert finding.state == state
    assert finding.value == f"3 of torch, 2 cores for this process, load average {load}"
    assert ("OMP_NUM_THREADS=1" in finding.advice) == (state == "note")
