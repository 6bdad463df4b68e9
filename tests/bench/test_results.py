from __future__ import annotations

import json

import pytest

from bench.synthetic import RUN, SETUP, synthetic_journal, synthetic_plan, synthetic_results
from hybridspec.bench.equality import Difference
from hybridspec.bench.results import assemble, summary


def test_the_document_is_json_and_complete(tmp_path):
    results = synthetic_results(tmp_path, repeats=2)
    assert json.loads(json.dumps(results))["schema"] == "hybridspec.bench.speed/1"
    assert results["complete"]
    assert results["setup"] == SETUP
    assert results["runs"] == [RUN]
    assert results["prompts"] == {"coding": 3, "math": 3, "rag": 3}
    assert results["baseline"] == "ar"
    assert results["equality"]["answers"] == 9 * 3 * 2


def test_categories_add_up_to_the_whole(tmp_path):
    for system in synthetic_results(tmp_path, repeats=2)["systems"].values():
        parts = list(system["categories"].values())
        for name in ("generations", "tokens", "decode_tokens", "rounds", "prompt_tokens"):
            assert system[name] == sum(p[name] for p in parts)
        assert system["decode_seconds"] == pytest.approx(sum(p["decode_seconds"] for p in parts))
        for name in ("acceptance_histogram", "verification_length_histogram"):
            columns = zip(*(p[name] for p in parts), strict=True)
            assert list(system[name]) == [sum(column) for column in columns]
        emitted = sum((a + 1) * n for a, n in enumerate(system["acceptance_histogram"]))
        assert emitted == system["decode_tokens"] == 9 * 40 * 2


def test_the_baseline_is_once_as_fast_as_itself(tmp_path):
    systems = synthetic_results(tmp_path)["systems"]
    assert systems["ar"]["speedup"]["value"] == pytest.approx(1.0)
    ours, theirs = (systems[n]["tokens_per_second"]["median"] for n in ("static:5", "ar"))
    assert systems["static:5"]["speedup"]["value"] == pytest.approx(ours / theirs)


def test_round_costs_count_every_round(tmp_path):
    results = synthetic_results(tmp_path)
    rounds = sum(s["rounds"] for s in results["systems"].values())
    assert sum(c["rounds"] for c in results["round_costs"]) == rounds
    pairs = [(c["system"], c["w"]) for c in results["round_costs"]]
    assert pairs == sorted(set(pairs))


def test_surplus_repeats_of_an_earlier_run_are_left_out(tmp_path):
    plan = synthetic_plan(tmp_path, ("ar",), ("math",), 2, repeats=3)
    journal = synthetic_journal(plan)
    fewer = synthetic_plan(tmp_path, ("ar",), ("math",), 2, repeats=1)
    assert assemble(fewer, journal, [])["systems"]["ar"]["generations"] == 2
    more = synthetic_plan(tmp_path, ("ar",), ("math",), 2, repeats=4)
    assert not assemble(more, journal, [])["complete"]


def test_the_summary_holds_the_main_figures(tmp_path):
    difference = Difference("math-0", "dflash", 0, 3, 1, 2)
    results = synthetic_results(tmp_path, found=(difference,))
    said = summary(results, "DIR/speed.json")
    assert said["results"] == "DIR/speed.json"
    assert said["equal"] is False
    speeds = said["tokens_per_second"]
    assert said["fastest"] == max(speeds, key=speeds.get)
    assert said["speedup"]["dflash"] == results["systems"]["dflash"]["speedup"]["value"]
    assert summary(synthetic_results(tmp_path), "x")["equal"] is True
