"""MODEL and --model name the same: both at once are refused, and each is read."""

from __future__ import annotations

import json

import pytest


@pytest.mark.parametrize("verb", ["serve", "doctor"])
def test_two_models_are_refused(command, verb):
    command(verb, "/none/a", "--model", "/none/b").refused("two models", "'/none/a'", "'/none/b'")


def test_doctor_takes_it_as_an_option(command, pair):
    got = command("doctor", *pair("flat").options, "--device", "cpu", "--json")
    found = {c["name"]: c for c in json.loads(got.out)["checks"]}
    assert str(pair("flat").target) in found["target"]["value"]
    assert str(pair("flat").draft) in found["drafter"]["value"]


def test_serve_takes_it_as_an_option_before_its_variable(command, monkeypatch):
    monkeypatch.setenv("HYBRIDSPEC_MODEL", "/none/variable")
    got = command("serve", "--port", "0", "--model", "/none/option")
    assert got.code == 2
    assert "'/none/option'" in got.err
    assert "/none/variable" not in got.err
    assert "'/none/variable'" in command("serve", "--port", "0").err
