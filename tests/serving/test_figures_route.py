"""Prometheus' figures after known requests."""

from __future__ import annotations

import pytest
from test_chat_route import ask

from hybridspec.serving.metrics import Metrics
from scripted_text import RIGHT


def figures(client, prefix="hybridspec"):
    lines = [line for line in client.get("/metrics").text.splitlines() if line[0] != "#"]
    pairs = (line.rsplit(" ", 1) for line in lines if line.startswith(prefix))
    return {
        name.replace('model_name="embedded"', "").replace("{}", ""): float(v) for name, v in pairs
    }


@pytest.mark.parametrize("prefix", ["hybridspec", "vllm"])
def test_an_answer_is_counted_under_the_names_of_dashboards(make_client, script, prefix):
    client = make_client(metrics_prefix=prefix)
    script([1000 + i for i in range(30)], (3, RIGHT, 0))
    document = ask(client, system="static:4")
    facts, seen = document["metrics"]["speculative_decoding"], figures(client, prefix)

    def of(name: str) -> float:
        return seen[f"{prefix}:{name}"]

    assert of("spec_decode_num_drafts_total") == facts["num_spec_steps"]
    assert of("spec_decode_num_draft_tokens_total") == facts["num_draft_tokens"]
    assert of("spec_decode_num_accepted_tokens_total") == facts["num_accepted_draft_tokens"]
    counts = facts["acceptance_histogram"]
    for place in range(3):
        name = f'spec_decode_num_accepted_tokens_per_pos_total{{,position="{place}"}}'
        assert of(name) == sum(counts[place + 1 :])
    lengths = document["hybridspec"]["verification_length_histogram"]
    for w in (w for w, count in enumerate(lengths) if count):
        assert of(f'verify_length_total{{length="{w}",}}') == lengths[w]
    assert of("generation_tokens_total") == document["usage"]["completion_tokens"] == 31
    assert of("prompt_tokens_total") == document["usage"]["prompt_tokens"]
    assert of('request_success_total{finished_reason="stop",}') == 1
    assert of("round_seconds_count") == facts["num_spec_steps"]
    assert of("inter_token_latency_seconds_count") == 30
    for once in ("time_to_first_token", "e2e_request_latency", "request_queue_time"):
        assert of(f"{once}_seconds_count") == 1
    assert of("spec_accept_length") == pytest.approx(facts["mean_acceptance_length"])
    assert of("num_requests_running") == of("num_requests_waiting") == 0


def test_a_round_longer_than_the_policy_named_is_an_expansion():
    from hybridspec.core import RoundStats

    metrics = Metrics("x", "m")
    for w, w0 in ((4, 3), (4, 4), (2, 5)):
        metrics.progress(RoundStats(w, 1, 2, w0), 2, 0.1)
    assert b'x:router_expansions_total{model_name="m"} 1.0' in metrics.text()


def test_two_servers_of_a_process_count_apart():
    first, second = Metrics("x", "m"), Metrics("x", "m")
    first.progress(None, 5, 0.1)
    assert b'x:generation_tokens_total{model_name="m"} 5.0' in first.text()
    assert b'x:generation_tokens_total{model_name="m"} 0.0' in second.text()
