from __future__ import annotations

import json

from bench.bench_records import record
from hybridspec.bench.records import Record


def test_a_record_survives_json():
    before = record("ä", "static:5", 2, rounds=[(5, 4), (3, 0)], tokens=range(7))
    assert Record.from_json(json.loads(json.dumps(before.to_json()))) == before


def test_decode_tokens_leave_out_the_first():
    assert record(tokens=[1, 2, 3]).decode_tokens == 2
    assert record(tokens=[1], rounds=[]).decode_tokens == 0
