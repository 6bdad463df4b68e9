"""What a GPU's kernels leave to plain torch is said, once."""

from __future__ import annotations

import logging

import torch

from hybridspec.kernels import support


def test_a_reason_is_said_once(caplog, monkeypatch):
    monkeypatch.setattr(support, "_said", {})
    with caplog.at_level(logging.WARNING, "hybridspec"):
        support.once("because")
        support.once("because")
        support.once("besides")
    assert [r.message for r in caplog.records] == ["because", "besides"]
    assert support.said() == ("because", "besides")


def test_what_is_refused_on_a_gpu_is_said(monkeypatch):
    monkeypatch.setattr(support, "_said", {})
    monkeypatch.setattr(support, "missing", lambda device: None)
    gpu = torch.device("cuda")
    assert support.serves("Layers", gpu, lambda: None)
    assert support.said() == ()
    assert not support.serves("Layers", gpu, lambda: "too odd")
    assert support.said() == ("Layers run in plain torch, slower than they could: too odd.",)


def test_nothing_is_asked_or_said_without_triton_or_on_an_old_card(monkeypatch):
    monkeypatch.setattr(support, "_said", {})
    gpu = torch.device("cuda")
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (7, 5))
    assert "7.5" in support.missing(gpu)
    monkeypatch.setattr(support.importlib.util, "find_spec", lambda name: None)
    assert "not installed" in support.missing(gpu)
    assert not support.serves("Layers", gpu, lambda: 1 / 0)


def test_a_gpu_that_is_not_the_current_one_has_none(monkeypatch):
    """Launches would go to the other."""
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (9, 0))
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    assert support.missing(torch.device("cuda")) is None
    assert support.missing(torch.device("cuda:0")) is None
    assert "set_device(1)" in support.missing(torch.device("cuda:1"))


def test_a_cpu_never_has_kernels_and_hears_nothing(monkeypatch):
    monkeypatch.setattr(support, "_said", {})
    assert not support.serves("Layers", torch.device("cpu"), lambda: "never asked")
    assert support.said() == ()


def test_a_package_inside_a_missing_one_is_missing():
    assert support.installed("cuda.bindings")
    assert not support.installed("nowhere")
    assert not support.installed("nowhere.inside")
