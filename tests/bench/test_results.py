from __future__ import annotations

import json
from dataclasses import replace

import pytest

from bench.synthetic import RUN, SETUP, synthetic_journal, synthetic_plan, synthetic_results
from hybridspec.bench.equality import Difference
from hybridspec.bench.options import ABLATION
from hybridspec.bench.results import assemble, summary
from hybridspec.bench.tables import tables


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


def test_averages_are_means_over_categories(tmp_path):
    results = synthetic_results(tmp_path)
    for system in results["systems"].values():
        parts, average = list(system["categories"].values()), system["averages"]
        for name, of in [("acceptance_length", "mean_acceptance_length"),
                         ("verification_length", "mean_verification_length"),
                         ("unverified", "unverified_per_round")]:  # fmt: skip
            assert average[name] == pytest.approx(sum(p[of] for p in parts) / 3)
        ratios = [p["speedup"]["value"] for p in parts]
        assert average["speedup"]["value"] == pytest.approx(sum(ratios) / 3)
        low, high = (average["speedup"][end] for end in ("low", "high"))
        assert low <= average["speedup"]["value"] <= high


def test_the_papers_share_sets_lost_length_against_what_was_not_verified(tmp_path):
    systems = synthetic_results(tmp_path)["systems"]
    ours, whole = (systems[name]["averages"] for name in ("static:5", "dflash"))
    lost = whole["acceptance_length"] - ours["acceptance_length"]
    skipped = 16 - ours["verification_length"]
    assert systems["static:5"]["al_gap_share"] == pytest.approx(lost / skipped)
    assert systems["dflash"]["al_gap_share"] is None
    alone = synthetic_results(tmp_path / "alone", ("ar", "static:5"))["systems"]
    assert alone["static:5"]["al_gap_share"] is None


def test_the_ablation_is_a_row_a_variant(tmp_path):
    plan = synthetic_plan(tmp_path, ("ar", "hybridspec", *ABLATION), ("math", "rag"), 3)
    plan = replace(plan, options=replace(plan.options, ablation=True))
    results = assemble(plan, synthetic_journal(plan), [])
    averages = {name: s["averages"] for name, s in results["systems"].items()}
    assert [row["replaced_by"] for row in results["ablation"]] == list(ABLATION)
    for row in results["ablation"]:
        ours = averages["hybridspec"]["speedup"]["value"]
        theirs = averages[row["replaced_by"]]["speedup"]["value"]
        assert row["gain"]["value"] == pytest.approx(ours / theirs)
        assert row["gain"]["low"] <= row["gain"]["value"] <= row["gain"]["high"]
        assert row["acceptance_length"] == averages[row["replaced_by"]]["acceptance_length"]
    (said,) = [t for t in tables(results) if t.title.startswith("What each part")]
    assert said.rows[0][:2] == ("Length selection", "static")
    assert summary(results, "x")["averages"]["ar"]["speedup"] == pytest.approx(1.0)


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
