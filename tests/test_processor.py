"""The processor's name, and the note about a profile of another one."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hybridspec import processor
from hybridspec.systems import parse_system
from test_catalogue import PROFILE


def test_the_processor_is_named_with_family_and_model(monkeypatch):
    text = "processor : 0\ncpu family\t: 6\nmodel\t\t: 207\nmodel name\t: Xeon @ 2 GHz: x\n"
    monkeypatch.setattr(processor, "_read", lambda path: text)
    assert processor.processor_name() == "Xeon @ 2 GHz: x (cpu family 6, model 207)"
    monkeypatch.setattr(processor, "_read", lambda path: "")
    assert processor.processor_name()


@pytest.fixture
def here(monkeypatch):
    monkeypatch.setattr(processor, "_ours", lambda: "this one")
    monkeypatch.setattr(processor, "_told", set())


def made_on(cpu: str):
    return replace(PROFILE, runtime={"device": "cpu", "dtype": "float32", "cpu": cpu})


def test_a_profile_of_another_processor_is_noted_once_when_it_is_used(here, capsys):
    other = made_on("another")
    parse_system("static:4", 16, other)
    assert capsys.readouterr().err == ""  # it reads no profile
    for name in ("hybridspec", "auto", "hybridspec"):
        parse_system(name, 16, other)
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert "another processor" in said
    assert "`hybridspec calibrate --help`" in said
    assert len(said) < 160


def test_a_profile_of_this_processor_or_of_a_gpu_is_not(here, capsys, monkeypatch):
    gpu = replace(PROFILE, runtime={"device": "H200", "dtype": "bfloat16", "cpu": "another"})
    for profile in (made_on("this one"), gpu, PROFILE):
        parse_system("auto", 16, profile)
    assert capsys.readouterr().err == ""
    monkeypatch.setattr("sys.stderr", None)
    parse_system("auto", 16, made_on("another"))  # nobody to tell


def test_a_profile_and_a_system_are_short_in_messages():
    assert repr(PROFILE) == "<Profile on cpu, float32>"
    assert repr(parse_system("hybridspec", 16, PROFILE)) == "<System hybridspec>"
