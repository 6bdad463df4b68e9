"""Turns of a conversation: what was kept is told, and the answer is that of a run from nothing."""

from __future__ import annotations

import pytest
from fastapi.testclient import TestClient
from test_chat_route import GARDEN, ask

from hybridspec.core import SamplingParams
from hybridspec.engine import Engine
from hybridspec.serving import Settings, create_app
from served import metric, until


@pytest.fixture(scope="module")
def keeping():
    engine = Engine.load(progress=False, prefix_memory=64 * 2**20)
    with TestClient(create_app(engine, Settings())) as client:
        until(lambda: client.app.state.worker.state == "ok")
        yield client


def test_the_next_turn_runs_only_what_is_new(keeping):
    body = {"temperature": 0, "max_tokens": 40}
    first = ask(keeping, **body)
    assert first["usage"]["prompt_tokens_details"]["cached_tokens"] == 0
    said = first["choices"][0]["message"]["content"]
    turns = [*GARDEN, {"role": "assistant", "content": said}, {"role": "user", "content": "Why?"}]
    second = ask(keeping, turns, **body)
    cached = second["usage"]["prompt_tokens_details"]["cached_tokens"]
    assert 0 < cached < second["usage"]["prompt_tokens"]
    timings = second["timings"]
    assert timings["cache_n"] == cached
    assert timings["prompt_n"] == second["usage"]["prompt_tokens"] - cached
    assert metric(keeping.get("/metrics").text, "prefix_cache_hits_total") == cached
    engine, params = keeping.app.state.worker.engine, SamplingParams(max_tokens=40)
    fresh = engine.generate(turns, params, reuse="none")
    assert second["choices"][0]["message"]["content"] == fresh.text
