"""One engine, many clients: the line, failures that stay their own, loading and stopping."""

from __future__ import annotations

import threading

import pytest
from fastapi.testclient import TestClient
from test_chat_route import CHAT_BODY, GARDEN, PATH, ask
from test_refusals import refused

from hybridspec.errors import CheckpointError, RequestError
from hybridspec.runtime.round import Rounds
from hybridspec.serving import Settings, create_app
from served import metric, until


def test_while_the_model_loads_requests_are_told_to_come_back(engine):
    may_load = threading.Event()

    def load():
        may_load.wait(60)
        return engine

    with TestClient(create_app(load, Settings())) as client:
        assert client.get("/health").status_code == 503
        assert client.get("/health").json() == {"status": "loading"}
        for response in (client.post(PATH, json=CHAT_BODY), client.get("/v1/models")):
            assert refused(response, 503)["code"] == "loading"
            assert response.headers["retry-after"] == "1"
        assert client.get("/metrics").status_code == 200
        may_load.set()
        until(lambda: client.get("/health").status_code == 200)
        assert ask(client, max_tokens=1)["usage"]["completion_tokens"] == 1


def test_a_model_that_cannot_be_loaded_is_said_so():
    def load():
        raise CheckpointError("There is none.")

    app = create_app(load, Settings())
    told = []
    app.state.worker.on_loaded = told.append
    with TestClient(app) as client:
        until(lambda: bool(told))
        assert client.get("/health").json() == {"status": "failing"}
        assert client.get("/health").status_code == 503
    assert str(told[0]) == "There is none."


def test_who_cannot_be_told_that_it_is_loaded_stops_nobody(engine):
    app = create_app(engine, Settings())
    told = []

    def breaks(failure):
        told.append(failure)
        raise BrokenPipeError

    app.state.worker.on_loaded = breaks
    with TestClient(app) as client:
        until(lambda: bool(told))
        assert ask(client, max_tokens=1)["usage"]["completion_tokens"] == 1
        assert client.get("/health").status_code == 200


def test_without_its_thread_the_server_calls_itself_ill(make_client):
    worker = (client := make_client()).app.state.worker
    worker._line.close()  # as what ends it
    worker._thread.join(60)
    assert client.get("/health").status_code == 503
    assert client.get("/health").json() == {"status": "failing"}


@pytest.mark.parametrize("error", [RuntimeError("secret words"), RequestError("Not so.")])
@pytest.mark.parametrize("stream", [False, True])
def test_a_request_that_fails_fails_alone(client, monkeypatch, error, stream):
    before = ask(client, temperature=0, max_tokens=30)["choices"]
    real, calls = Rounds.run, []

    def breaks(rounds, *arguments):
        calls.append(1)
        if len(calls) == 2:
            raise error
        return real(rounds, *arguments)

    with monkeypatch.context() as patch:
        patch.setattr(Rounds, "run", breaks)
        body = {**CHAT_BODY, "max_tokens": 30, "system": "static:4", "stream": stream}
        response = client.post(PATH, json=body)
    assert "secret" not in response.text
    if stream:
        assert response.status_code == 200
        assert '"error": {"message"' in response.text.split("data: ")[-2]
        assert response.text.endswith("data: [DONE]\n\n")
    else:
        refused(response, 400 if isinstance(error, RequestError) else 500)
    assert ask(client, temperature=0, max_tokens=30)["choices"] == before
    assert client.get("/health").status_code == 200


def test_a_server_whose_every_request_fails_calls_itself_ill(make_client, monkeypatch):
    client = make_client()

    def breaks(*_):
        raise RuntimeError

    with monkeypatch.context() as patch:
        patch.setattr(Rounds, "prefill", breaks)
        for _ in range(3):
            assert client.get("/health").status_code == 200
            refused(client.post(PATH, json=CHAT_BODY), 500)
        assert client.get("/health").json() == {"status": "failing"}
    ask(client, max_tokens=1)
    assert client.get("/health").status_code == 200


class Gate:
    """Holds the engine at the prompt of every answer until it is opened."""

    def __init__(self, monkeypatch) -> None:
        self.open, self.order = threading.Event(), []
        real = Rounds.prefill

        def held(rounds, sequence, ids):
            self.order.append(len(ids))
            assert self.open.wait(60)
            return real(rounds, sequence, ids)

        monkeypatch.setattr(Rounds, "prefill", held)


@pytest.fixture
def gate(monkeypatch):
    return Gate(monkeypatch)


def posted(client, **body):
    """A request that somebody waits for in a thread; join it to have its response."""
    found = []
    thread = threading.Thread(
        target=lambda: found.append(client.post(PATH, json={**CHAT_BODY, **body}))
    )
    thread.start()

    def response():
        thread.join(60)
        return found[0]

    return response


def test_a_full_line_refuses_and_serves_who_is_in_it(make_client, gate):
    client = make_client(max_waiting=1)
    first = posted(client)
    until(lambda: figure(client, "num_requests_running") == 1)
    second = posted(client)
    until(lambda: figure(client, "num_requests_waiting") == 1)
    for stream in (False, True):
        response = client.post(PATH, json={**CHAT_BODY, "stream": stream})
        assert refused(response, 503)["code"] == "overloaded"
        assert response.headers["retry-after"] == "1"
    gate.open.set()
    assert first().status_code == second().status_code == 200
    until(lambda: figure(client, "num_requests_running") == 0)
    assert figure(client, "num_requests_waiting") == 0


def test_users_take_turns(make_client, gate):
    client = make_client()
    waiting = [posted(client, user="a")]
    until(lambda: figure(client, "num_requests_running") == 1)
    lengths = {}
    for count, user in enumerate(("a", "a", "b"), 1):
        messages = [{"role": "user", "content": "word " * 10 * count}]
        ids = client.post("/tokenize", json={"messages": messages}).json()["tokens"]
        lengths[len(ids)] = f"{user}{count}"
        waiting.append(posted(client, user=user, messages=messages))
        until(lambda count=count: figure(client, "num_requests_waiting") == count)
    gate.open.set()
    assert [response().status_code for response in waiting] == [200] * 4
    assert [lengths[length] for length in gate.order[1:]] == ["a1", "b3", "a2"]


def test_choices_of_one_request_let_others_in_between(make_client, gate):
    client = make_client()
    many = posted(client, user="a", n=3)
    until(lambda: figure(client, "num_requests_running") == 1)
    one = posted(client, user="b", messages=[{"role": "user", "content": "Hello"}])
    until(lambda: figure(client, "num_requests_waiting") == 1)
    gate.open.set()
    assert len(many().json()["choices"]) == 3
    assert one().status_code == 200
    garden, hello = gate.order[0], min(gate.order)
    assert gate.order == [garden, hello, garden, garden]


def test_stopping_ends_what_runs_and_tells_who_waits(engine, gate):
    with TestClient(create_app(engine, Settings())) as client:
        until(lambda: client.app.state.worker.state == "ok")
        running = posted(client, max_tokens=500, ignore_eos=True)
        until(lambda: figure(client, "num_requests_running") == 1)
        waiting = posted(client)
        until(lambda: figure(client, "num_requests_waiting") == 1)
        stopping = threading.Thread(target=client.app.state.worker.stop)
        stopping.start()
        assert refused(waiting(), 503)["code"] == "shutting_down"
        gate.open.set()
        assert refused(running(), 503)["code"] == "shutting_down"
        stopping.join(60)
        assert refused(client.post(PATH, json={"messages": GARDEN}), 503)["code"] == "shutting_down"


def figure(client, name):
    return metric(client.get("/metrics").text, name)
