"""Memory of the 35B shape: what the allocating classes say against the paper's formulae."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from hybridspec.bench.scripted.ledger import Ledger, main
from hybridspec.bench.scripted.report.files import MEMORY
from hybridspec.bench.scripted.shapes import SHAPES
from hybridspec.model.gdn import VERIFY
from hybridspec.runtime.state import TargetState

GDN, HEADS, KEY_HEADS, SIZE, W = 30, 32, 16, 128, 16
STATES = W * GDN * HEADS * SIZE * SIZE * 4  # D.4: 0.94 GiB


@pytest.fixture(scope="module")
def ledger() -> Ledger:
    return Ledger(SHAPES["35b"], torch.bfloat16, joint=True)


def test_buffers_are_those_of_the_formulae(ledger):
    factor = W * GDN * 4 * (HEADS * SIZE + KEY_HEADS * SIZE + HEADS)  # Z, K, G
    # q, k, v, z of 2,048 + 2,048 + 4,096 + 4,096 and two numbers a head, in bf16
    columns = W * GDN * 2 * (12288 + 2 * HEADS)
    common = {"columns": columns, "factors": factor + W * GDN * HEADS * 4}
    for verifier, own in {
        "exact": {"states": 0, "ring": 0}, "block": {"states": 0, "ring": 0},
        "per-token": {"states": STATES, "ring": 0}, "replay": {"states": 0, "ring": 2 * factor},
    }.items():  # fmt: skip
        parts = common | own
        assert ledger.verification(verifier) == parts | {"sum": sum(parts.values())}
    assert {*ledger.document()["verification"]} == {*VERIFY}
    assert round(STATES / 2**30, 2) == 0.94
    assert round(factor / 1e9, 2) == 0.01


def test_a_token_takes_keys_and_values_of_the_layers_that_keep_all(ledger):
    target, drafter = 10 * 2 * 2 * 256 * 2, 1 * 2 * 8 * 128 * 2
    assert ledger.document()["per_token"] == target + drafter == 24576
    # all six layers of a drafter that keeps no window: the paper's 44 KiB
    assert target + 6 * drafter == 44 * 1024


@pytest.mark.parametrize("verifier", ["exact", "per-token", "replay"])
def test_as_many_tokens_fit_as_can_be_allocated(ledger, verifier):
    room = 8 * 10**9
    most = ledger.tokens(room, verifier)
    assert ledger.bytes(most, verifier) <= room < ledger.bytes(most + 1, verifier)
    assert ledger.tokens(1000, verifier) == 0


def test_states_a_token_cost_their_size_in_tokens(ledger):
    for row in ledger.document()["cacheable"]:
        assert row["exact"] - row["per-token"] == STATES // 24576 == 40960
    by_name = {row["memory"]: row for row in ledger.document()["cacheable"]}
    assert by_name["80 GiB"]["room"] == 80 * 2**30 - ledger.weights
    assert by_name["141 GB"]["room"] == 141 * 10**9 - ledger.weights
    # 112,687 tokens of 44 KiB beside two slots' states
    assert by_name["the paper's pool"]["room"] == pytest.approx(112687 * 45056 + 2 * STATES, 1e-3)


def test_nothing_but_the_device_differs_from_what_is_allocated():
    shape, tokens = SHAPES["small"], 40
    made = TargetState(shape.target, tokens, dtype=torch.float32, joint=True)
    made.verifiers.states()
    meta = Ledger(shape, torch.float32, joint=True)
    drafter = meta.bytes(tokens, "per-token") - made.nbytes
    assert drafter == meta.bytes(tokens) - TargetState(shape.target, tokens, joint=True).nbytes
    assert 69e9 < Ledger(SHAPES["35b"], torch.bfloat16, joint=True).weights < 71e9


def test_the_committed_ledger_is_this_one(ledger, tmp_path):
    folder = tmp_path / "not" / "there"
    assert main(["--out", str(folder)]) == 0
    made = json.loads((folder / MEMORY).read_text())
    assert made == ledger.document()
    committed = Path(__file__).parents[2] / "benchmarks" / "h200" / MEMORY
    assert json.loads(committed.read_text()) == made
