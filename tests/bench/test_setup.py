from __future__ import annotations

import dataclasses
import os
import shutil

import pytest
import torch

from disk_pair import write_pair
from hybridspec.bench.options import SpeedOptions
from hybridspec.bench.prompts import Prompt
from hybridspec.bench.setup import make_plan
from hybridspec.checkpoint import fingerprint
from hybridspec.errors import CheckpointError, RequestError

PROMPTS = [Prompt("a", "math", "1 + 1")]


@pytest.fixture
def options(pair, tmp_path):
    return SpeedOptions(
        out=tmp_path, model=str(pair.target), draft=str(pair.draft), device="cpu", max_tokens=5
    )


def test_the_setup_names_checkpoints_machine_and_code(options, pair):
    plan = make_plan(options, PROMPTS)
    assert plan.block_size == 16
    assert plan.chat
    setup = plan.setup
    assert setup["model_sha256"] == fingerprint(pair.target)
    assert setup["draft_sha256"] == fingerprint(pair.draft)
    assert setup["torch"] == torch.__version__
    assert setup["threads"] == torch.get_num_threads()
    assert setup["cores"] >= 1
    assert setup["cpu"]
    assert len(setup["source_sha256"]) == 64
    assert setup["prompt_form"] == "chat"
    assert "gpu" not in setup


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("systems", {"systems": ("ar",)}),
        ("max_tokens", {"max_tokens": 6}),
        ("prompt_form", {"chat": False}),
        ("turns", {"turns": "all"}),
        ("fresh_processes", {"processes": 2}),
        ("thinking", {"thinking": True}),
        ("dtype", {"dtype": "float64"}),
        ("draft_sha256", {"draft": None, "systems": ("ar",)}),
    ],
)
def test_what_changes_the_figures_changes_the_setup(options, name, change):
    before = make_plan(options, PROMPTS).setup
    after = make_plan(dataclasses.replace(options, **change), PROMPTS).setup
    assert before[name] != after[name]


def test_other_weights_or_prompts_change_the_setup(options, pair, tmp_path):
    before = make_plan(options, PROMPTS).setup
    other = make_plan(options, [Prompt("a", "math", "1 + 2")]).setup
    assert before["prompts_sha256"] != other["prompts_sha256"]
    shutil.copytree(pair.draft, tmp_path / "draft")
    weights = tmp_path / "draft" / "model.safetensors"
    data = bytearray(weights.read_bytes())
    data[-1] ^= 1
    weights.write_bytes(data)
    changed = dataclasses.replace(options, draft=str(tmp_path / "draft"))
    assert before["draft_sha256"] != make_plan(changed, PROMPTS).setup["draft_sha256"]


def test_more_repeats_are_no_other_setup(options):
    more = make_plan(dataclasses.replace(options, repeats=3), PROMPTS)
    assert more.setup == make_plan(options, PROMPTS).setup
    assert len(more.schedule) == 9


def test_systems_are_checked_before_weights_are_loaded(options):
    for system, said in [("eagle", "unknown"), ("static:17", "1 to 16"), ("static:x", "'x'")]:
        with pytest.raises(RequestError, match=said):
            make_plan(dataclasses.replace(options, systems=("ar", system)), PROMPTS)
    with pytest.raises(RequestError, match="needs a drafter"):
        make_plan(dataclasses.replace(options, draft=None), PROMPTS)


def test_a_missing_checkpoint_is_refused(options):
    with pytest.raises(CheckpointError, match="no checkpoint at 'none'"):
        make_plan(dataclasses.replace(options, model="none"), PROMPTS)


def test_a_checkpoint_without_a_template_is_prompted_raw(options, tmp_path):
    plain = write_pair(tmp_path / "plain", template=False)
    raw = dataclasses.replace(options, model=str(plain.target), draft=str(plain.draft))
    assert not make_plan(raw, PROMPTS).chat
    with pytest.raises(RequestError, match="no chat template"):
        make_plan(dataclasses.replace(raw, chat=True), PROMPTS)


def test_threads_are_set(options, monkeypatch):
    before = torch.get_num_threads()
    monkeypatch.setattr(os, "cpu_count", lambda: before + 1)
    try:
        plan = make_plan(dataclasses.replace(options, threads=before + 1), PROMPTS)
        assert plan.setup["threads"] == torch.get_num_threads() == before + 1
    finally:
        torch.set_num_threads(before)
