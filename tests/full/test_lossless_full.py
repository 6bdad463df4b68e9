"""Losslessness at length: 200 prompts of the evaluation data, 64 tokens, every fixed length.

Run by `make test-full DATA=folder`. It fails, not skips, without the data.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from hybridspec import Engine, SamplingParams
from hybridspec.bench.prompts import read_prompts, select
from lossless import differences

SYSTEMS = [f"static:{w}" for w in range(1, 17)] + ["dflash"]
GREEDY = SamplingParams(max_tokens=64)
SEEDED = SamplingParams(max_tokens=64, temperature=1.0, top_p=0.95, seed=11)
SHARDS = 20

pytestmark = pytest.mark.full


@pytest.fixture(scope="session")
def engine() -> Engine:
    return Engine.load(device="cpu", max_context=4096)


@pytest.fixture(scope="session")
def prompts(engine) -> list[list[int]]:
    folder = os.environ.get("HYBRIDSPEC_DATA")
    assert folder, "Set HYBRIDSPEC_DATA (or DATA=) to the folder that holds prompts_60x11.jsonl."
    chosen = select(read_prompts(Path(folder) / "prompts_60x11.jsonl"), split="test", limit=200)
    assert len(chosen) == 200
    return [engine.encode(p.text, chat=True) for p in chosen]


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("shard", range(SHARDS))
@pytest.mark.parametrize("params", [GREEDY, SEEDED], ids=["greedy", "seeded"])
def test_every_fixed_length_says_what_plain_decoding_says(engine, prompts, params, shard):
    assert differences(engine, prompts[shard::SHARDS], SYSTEMS, params) == []
