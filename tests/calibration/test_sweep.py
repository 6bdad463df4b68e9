"""The sweep of fixed lengths: which are measured, in what turn, and which wins."""

from __future__ import annotations

import json

import pytest

from hybridspec.calibration.sweep import fastest, measured_sweep, screened
from scripted import scripted_engine


def test_three_within_five_percent_and_the_whole_block():
    rates = {2: 0.90, 3: 0.97, 4: 1.0, 5: 0.99, 6: 0.98, 7: 0.951, 16: 0.5}
    assert screened(rates) == [4, 5, 6, 16]
    assert screened({2: 1.0, 3: 0.94, 16: 0.96}) == [2, 16]
    assert screened({2: 1.0, 3: 0.94, 4: 0.96, 16: 0.2}) == [2, 4, 16]


def test_the_most_tokens_a_second_win_and_ties_are_short():
    assert fastest({4: (100, 2.0), 7: (80, 1.5), 16: (90, 3.0)}) == 7
    assert fastest({7: (100, 2.0), 4: (50, 1.0)}) == 4


@pytest.fixture
def asked(monkeypatch):
    """Lengths of the answers that ran, in order."""
    engine, seen = scripted_engine(), []
    generate = engine.generate

    def watched(ids, params, *, system):
        seen.append(system.policy.longest)
        return generate(ids, params, system=system)

    monkeypatch.setattr(engine, "generate", watched)
    return engine, seen


def test_lengths_take_turns_and_are_kept(asked, tmp_path):
    engine, seen = asked
    path, prompts = tmp_path / "static.jsonl", [[1, 2], [3, 4], [5, 6]]
    steps: list[str] = []
    sweep = measured_sweep(engine, prompts, 6, [2, 5, 16], "exact", path, steps.append)
    assert seen == [2, 5, 16, 5, 16, 2, 16, 2, 5]
    assert {w: tokens for w, (tokens, _) in sweep.items()} == dict.fromkeys((2, 5, 16), 15)
    assert all(seconds > 0 for _, seconds in sweep.values())
    assert len(steps) == 3
    rows = path.read_text().splitlines()
    path.write_text("\n".join(rows[:-1]) + "\n" + rows[-1][:5])  # interrupted in the last line
    again = measured_sweep(engine, prompts, 6, [2, 5, 16], "exact", path, print)
    assert seen[9:] == [5]
    assert again[2] == sweep[2]
    assert len([json.loads(row) for row in path.read_text().splitlines()]) == 9
