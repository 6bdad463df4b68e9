"""Real connections that end in every phase: the engine is free again, and others are served."""

from __future__ import annotations

import json
import socket
import struct

import httpx
import pytest

from served import until

TEXT = "/v1/completions"
SHORT = {"prompt": "The garden", "max_tokens": 8, "temperature": 0}
LONG = {"prompt": "The garden", "max_tokens": 30000, "ignore_eos": True}
READING = {"prompt": "hello world " * 7000, "max_tokens": 1}  # dozens of parts of a prompt
READ = {"prompt": "hello world " * 600, "max_tokens": 1}


def shut(connection: socket.socket) -> None:
    """The client says that it sends no more, and leaves."""
    connection.shutdown(socket.SHUT_RDWR)
    connection.close()


def reset(connection: socket.socket) -> None:
    """The client is gone at once, as when its process is killed."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()


CLOSES = {"close": socket.socket.close, "shutdown": shut, "reset": reset}


def answered(served):
    return httpx.post(served.url + TEXT, json=SHORT, timeout=120).json()["choices"]


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("close", CLOSES)
def test_while_it_is_decoded(served, close, stream):
    before = answered(served)
    count = served.metric("generation_tokens_total")
    connection = served.send(TEXT, {**LONG, "stream": stream})
    until(lambda: served.metric("generation_tokens_total") > count + 5)
    CLOSES[close](connection)
    until(served.idle)
    assert served.metric("generation_tokens_total") < count + 30000
    assert answered(served) == before


@pytest.mark.parametrize("stream", [False, True])
def test_while_the_prompt_is_read(served, stream):
    before = answered(served)
    count = served.metric("generation_tokens_total")
    connection = served.send(TEXT, {**READING, "stream": stream})
    until(lambda: served.metric("num_requests_running") == 1)
    connection.close()
    until(served.idle)
    assert served.metric("generation_tokens_total") == count
    assert answered(served) == before


def test_while_the_prompt_is_scored(served, engine, monkeypatch):
    read, parts = engine.target.read, []
    monkeypatch.setattr(engine.target, "read", lambda *a, **k: parts.append(1) or read(*a, **k))
    connection = served.send(TEXT, {**READING, "max_tokens": 0, "echo": True, "logprobs": 1})
    until(lambda: len(parts) > 1)
    connection.close()
    until(served.idle)
    assert len(parts) < 28  # which are all
    answered(served)


@pytest.mark.parametrize("stream", [False, True])
def test_while_it_waits(served, stream):
    before = answered(served)
    running = served.send(TEXT, LONG)
    until(lambda: served.metric("num_requests_running") == 1)
    waiting = served.send(TEXT, {**SHORT, "stream": stream})
    until(lambda: served.metric("num_requests_waiting") == 1)
    count = served.metric("e2e_request_latency_seconds_count")
    waiting.close()
    until(lambda: served.metric("num_requests_waiting") == 0)
    assert served.metric("num_requests_running") == 1
    running.close()
    until(served.idle)
    assert served.metric("e2e_request_latency_seconds_count") == count + 1
    assert answered(served) == before


def test_while_nobody_reads_what_is_sent(served):
    """A client that does not read holds back its own answer and not the engine."""
    connection = served.send(TEXT, {**LONG, "max_tokens": 60, "stream": True, "logprobs": 20})
    until(lambda: served.metric("num_requests_running") == 1)
    until(served.idle)
    answered(served)
    connection.close()


def test_between_two_choices(served):
    count = served.metric("e2e_request_latency_seconds_count")
    connection = served.send(TEXT, {**LONG, "max_tokens": 4, "n": 50})
    until(lambda: served.metric("e2e_request_latency_seconds_count") > count + 2)
    connection.close()
    until(served.idle)
    assert served.metric("e2e_request_latency_seconds_count") < count + 50


def test_a_stream_says_that_it_is_alive_while_the_prompt_is_read(served):
    with httpx.stream("POST", served.url + TEXT, json={**READ, "stream": True}, timeout=120) as got:
        lines = [line for line in got.iter_lines() if line]
    first = next(i for i, line in enumerate(lines) if line.startswith("data: "))
    assert first > 0
    assert set(lines[:first]) == {": waiting"}
    assert json.loads(lines[first].removeprefix("data: "))["object"] == "text_completion"
    assert lines[-1] == "data: [DONE]"


def test_the_connection_is_kept_for_the_next_request(served):
    with httpx.Client(base_url=served.url, timeout=120) as client:
        first = client.post(TEXT, json=SHORT)
        with client.stream("POST", TEXT, json={**SHORT, "stream": True}) as got:
            assert list(got.iter_lines())[-2] == "data: [DONE]"
        assert client.post(TEXT, json=SHORT).json()["choices"] == first.json()["choices"]
