from __future__ import annotations

import json

import pytest

from disk_pair import DiskPair, write_pair

PROMPTS = [
    {"id": "a", "category": "math", "turns": ["1 + 1"], "split": "test"},
    {"id": "b", "category": "rag", "turns": ["Where?"], "split": "test"},
    {"id": "c", "category": "rag", "turns": ["When?"], "split": "train"},
]


@pytest.fixture(scope="session")
def pair(tmp_path_factory) -> DiskPair:
    """A random pair: hardly a draft is accepted."""
    return write_pair(tmp_path_factory.mktemp("random"))


@pytest.fixture(scope="session")
def flat_pair(tmp_path_factory) -> DiskPair:
    """A pair that says one token for ever: every draft is accepted."""
    return write_pair(tmp_path_factory.mktemp("flat"), "flat")


@pytest.fixture
def command(flat_pair, tmp_path):
    """Arguments of a small bench: 2 prompts, 3 systems, answers of 6 tokens."""
    prompts = tmp_path / "prompts.jsonl"
    prompts.write_text("\n".join(map(json.dumps, PROMPTS)))
    return [
        *flat_pair.options,
        *("--prompts", str(prompts), "--split", "test", "--systems", "ar,static:3,dflash"),
        *("--max-tokens", "6", "--device", "cpu", "--out", str(tmp_path / "out")),
    ]


@pytest.fixture
def out(tmp_path):
    return tmp_path / "out"
