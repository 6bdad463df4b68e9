"""What drafting did, in every shape that clients read."""

from __future__ import annotations

import pytest
from test_chat_route import ask, stream

from hybridspec.core import Generation, GenerationStats, RoundStats
from hybridspec.serving.facts import Facts
from scripted_text import RIGHT

SYSTEMS = ("ar", "static:4", "dflash", "auto", "hybridspec")


def answer(*rounds: tuple[int, int, int]) -> Generation:
    stats = GenerationStats(tuple(RoundStats(w, a, a + 1, w0) for w, a, w0 in rounds), 0.5, 2.0, 7)
    tokens = 1 + sum(a + 1 for _, a, _ in rounds)
    return Generation("", tuple(range(tokens)), "stop", 20, "static:4", stats)


def test_the_shapes_of_known_rounds():
    facts = Facts(
        [answer((4, 3, 3), (4, 1, 4)), answer((1, 0, 1))], 15, 0.25, sglang=True
    ).document()
    assert facts["metrics"]["speculative_decoding"] == {
        "mean_acceptance_length": pytest.approx(7 / 3),
        "draft_acceptance_rate": pytest.approx(4 / 6),
        "acceptance_histogram": [1, 1, 0, 1] + [0] * 12,
        "acceptance_histogram_by_draft_length": {"0": [1], "3": [0, 1, 0, 1]},
        "num_spec_steps": 3,
        "num_accepted_draft_tokens": 4,
        "num_draft_tokens": 6,
        "num_spec_tokens": 15,
    }
    assert facts["sglext"]["spec_tokens_details"] == {
        "spec_accept_rate": pytest.approx(4 / 6),
        "spec_accept_length": pytest.approx(7 / 3),
        "spec_num_correct_drafts": 4,
        "spec_num_proposed_drafts": 6,
        "spec_verify_ct": 3,
        "spec_correct_drafts_histogram": [1, 1, 0, 1] + [0] * 12,
    }
    assert facts["timings"] == {
        "cache_n": 0,
        "prompt_n": 40,
        "prompt_ms": 1000,
        "prompt_per_token_ms": 25,
        "prompt_per_second": 40,
        "predicted_n": 9,
        "predicted_ms": 4000,
        "predicted_per_token_ms": pytest.approx(4000 / 9),
        "predicted_per_second": pytest.approx(9 / 4),
        "draft_n": 6,
        "draft_n_accepted": 4,
    }
    assert facts["hybridspec"] == {
        "system": "static:4",
        "seeds": [7, 7],
        "rounds": 3,
        "verification_length_histogram": [0, 1, 0, 0, 2] + [0] * 12,
        "router_expansions": 1,
        "round_ms": pytest.approx(4000 / 3),
        "queue_ms": 250,
    }


def test_without_rounds_nothing_is_divided_by_nothing():
    facts = Facts([answer()], 15).document()
    assert facts["metrics"]["speculative_decoding"]["mean_acceptance_length"] == 0
    assert facts["hybridspec"]["round_ms"] is None
    assert Facts([], 15).document()["timings"]["predicted_per_second"] == 0


def test_without_a_drafter_there_is_nothing_to_say_of_drafts():
    facts = Facts([answer((1, 0, 1))], 0, sglang=True).document()
    assert set(facts) == {"timings", "hybridspec"}


@pytest.mark.parametrize("system", SYSTEMS)
@pytest.mark.parametrize("plan", [(0, 2, RIGHT), (RIGHT,)])
def test_a_requests_figures_agree(client, script, system, plan):
    """A58: sums of the histograms are rounds and drafts; tokens are those before any trimming."""
    ids = script([1000 + i for i in range(50)], plan)
    document = ask(client, system=system, return_spec_tokens_details=True)
    facts = document["metrics"]["speculative_decoding"]
    counts = facts["acceptance_histogram"]
    assert len(counts) == 16
    assert sum(counts) == facts["num_spec_steps"] == document["hybridspec"]["rounds"]
    assert sum(j * count for j, count in enumerate(counts)) == facts["num_accepted_draft_tokens"]
    emitted = 1 + facts["num_spec_steps"] + facts["num_accepted_draft_tokens"]
    assert emitted >= document["usage"]["completion_tokens"] == len(ids) + 1
    lengths = document["hybridspec"]["verification_length_histogram"]
    assert (
        sum(w * count for w, count in enumerate(lengths)) - sum(lengths)
        == facts["num_draft_tokens"]
    )
    by_length = facts["acceptance_histogram_by_draft_length"]
    assert {int(k): sum(v) for k, v in by_length.items()} == {
        w - 1: count for w, count in enumerate(lengths) if count
    }
    assert document["timings"]["draft_n"] == facts["num_draft_tokens"]
    details = document["sglext"]["spec_tokens_details"]
    assert details["spec_correct_drafts_histogram"] == counts


def test_a_streams_last_event_has_the_facts(client):
    body = {"max_tokens": 9, "temperature": 0}
    plain = stream(client, **body)
    usage = stream(client, stream_options={"include_usage": True}, **body)
    for chunks in (plain, usage):
        assert [i for i, chunk in enumerate(chunks) if "metrics" in chunk] == [len(chunks) - 1]
        assert chunks[-1]["timings"]["predicted_n"] == 9
        assert "sglext" not in chunks[-1]
    assert usage[-1]["choices"] == []
