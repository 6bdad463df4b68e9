"""What SGLang is started with, and what is read from it."""

from __future__ import annotations

import json

import pytest

from bench.scripted_site import made_up_site
from hybridspec.bench.scripted import sglang
from hybridspec.errors import OptionError

SAID = """\
[2026-11-30] WARNING: {not json}
dflash16 startup s 61.5
{"mode": "dflash16", "rep": 0, "ms_per_token": 9.8, "ms_per_round": 9.9}
{"mode": "dflash16", "rep": 1, "ms_per_token": 9.7, "ms_per_round": 9.7}
{"mode": "dflash16", "rep": 2, "ms_per_token": 11.8, "ms_per_round": 12.0}
{"other": 1}
{broken
"""


def test_the_median_repeat_and_the_start_are_read():
    found = sglang.timed(SAID)
    assert found is not None
    assert (found["startup_s"], found["ms_per_round"], len(found["repeats"])) == (61.5, 9.9, 3)


def test_repeats_before_a_failure_count_and_none_is_nothing():
    lines = SAID.splitlines(keepends=True)
    cut = sglang.timed("".join(lines[:3]) + "Traceback\nRuntimeError: out of memory")
    assert cut is not None
    assert cut["ms_per_round"] == 9.9
    assert sglang.timed("".join(lines[:2])) is None
    unstarted = sglang.timed(lines[2])
    assert unstarted is not None
    assert unstarted["startup_s"] is None


def test_the_environment_is_that_of_the_patches(tmp_path):
    counts = tmp_path / "u.json"
    made = sglang.environment(tmp_path, 0.9, counts)
    assert made["PYTHONPATH"] == str(tmp_path)
    assert (made["ROUTING_SKEW"], made["HF_HUB_OFFLINE"]) == ("0.9", "1")
    assert made["SGLANG_SKIP_SGL_KERNEL_VERSION_CHECK"] == "1"
    assert made["COUNT_EXPERTS"] == str(counts)
    assert "COUNT_EXPERTS" not in sglang.environment(tmp_path, 0.9)


def test_counts_are_those_of_the_mode_s_length(tmp_path):
    counts = tmp_path / "u.json"
    assert sglang.counted(counts, "dflash16") is None
    counts.write_text(json.dumps({"1": [8.0, 40.0], "16": [49.3, 400.0]}))
    assert sglang.counted(counts, "dflash16") == {"distinct": 49.3, "passes": 400}
    assert sglang.counted(counts, "dflash8") is None


def test_what_cannot_run_is_refused(tmp_path):
    site, peers = made_up_site(tmp_path)
    sglang.check(site, peers, ("ar", "dflash16"), count=True)
    with pytest.raises(OptionError, match="names 'dflash5'"):
        sglang.check(site, peers, ("dflash5",), count=False)
    with pytest.raises(OptionError, match=r"holds no bench_sglang\.py"):
        sglang.check(site, site, ("ar",), count=False)
    topk = site / "sglang/srt/layers/moe/topk.py"
    topk.write_text("")
    sglang.check(site, peers, ("ar",), count=False)
    with pytest.raises(OptionError, match=r"run `count_experts_patch\.py"):
        sglang.check(site, peers, ("ar",), count=True)
    topk.unlink()
    with pytest.raises(OptionError, match=r"lacks sglang/srt/layers/moe/topk\.py"):
        sglang.check(site, peers, ("ar",), count=True)
