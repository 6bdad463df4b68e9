"""What goes wrong, as the package `openai` tells it to a program: its own exceptions, its retries,
its time limits, and answers that are given up in the middle."""

from __future__ import annotations

import asyncio

import openai
import pytest
from openai_clients import ENDLESS, HI, RAW_ENDLESS, connect, connect_async

from hybridspec.runtime.round import Rounds
from hybridspec.serving import Settings, create_app
from served import serve, until


@pytest.fixture(scope="module")
def api(served):
    with connect(served) as client:
        yield client


@pytest.mark.parametrize(
    ("changed", "param", "code"),
    [
        ({"top_p": 2}, "top_p", "invalid_value"),
        ({"max_tokens": 0}, "max_tokens", "invalid_value"),
        ({"n": 0}, "n", "invalid_value"),
        ({"messages": [{"role": "robot", "content": "Hi"}]}, "messages", "invalid_value"),
        ({"extra_body": {"wanted": 1}}, "wanted", "unknown_parameter"),
        ({"extra_body": {"best_of": 2}}, "best_of", "unsupported_parameter"),
        ({"extra_body": {"system": "static:99"}}, "system", "invalid_value"),
    ],
)
def test_a_wrong_field_is_a_bad_request_that_names_it(api, changed, param, code):
    with pytest.raises(openai.BadRequestError) as wrong:
        api.chat.completions.create(**{**HI, **changed})
    assert (wrong.value.status_code, wrong.value.param, wrong.value.code) == (400, param, code)
    assert wrong.value.type == "invalid_request_error"
    assert wrong.value.body["message"].endswith(".")


def test_other_statuses_have_their_classes_too(api, engine):
    with pytest.raises(openai.NotFoundError) as unknown:
        api.models.retrieve("other")
    assert unknown.value.type == "not_found_error"
    with pytest.raises(openai.NotFoundError):
        api.embeddings.create(model="embedded", input="Hi")
    narrow = Settings(api_key="right", max_body=1000, allowed_hosts=("127.0.0.1",))
    with serve(create_app(engine, narrow)) as served:
        with connect(served, api_key="wrong") as client, pytest.raises(openai.AuthenticationError):
            client.chat.completions.create(**HI)
        with connect(served, api_key="right") as client:
            with pytest.raises(openai.APIStatusError) as long:
                client.completions.create(model="embedded", prompt="word " * 1000)
            assert long.value.status_code == 413
            with pytest.raises(openai.PermissionDeniedError):
                client.models.list(extra_headers={"Host": "elsewhere.example"})
            assert client.models.list().data[0].id == "embedded"


def test_an_error_after_a_stream_has_begun_is_raised_from_it(api, monkeypatch):
    real, calls = Rounds.run, []

    def breaks(rounds, *arguments):
        calls.append(1)
        if len(calls) == 3:
            raise RuntimeError("secret words")
        return real(rounds, *arguments)

    with monkeypatch.context() as patch:
        patch.setattr(Rounds, "run", breaks)
        stream = api.chat.completions.create(**HI, stream=True, extra_body={"system": "static:4"})
        said = []
        with pytest.raises(openai.APIError) as failed:
            said.extend(chunk.choices[0].delta.content for chunk in stream)
    assert len(said) > 1
    assert failed.value.code == "internal_error"
    assert "secret" not in str(failed.value)


def test_its_retries_outlast_a_full_line(engine):
    with serve(create_app(engine, Settings(max_waiting=1))) as served:
        connections = [served.send("/v1/chat/completions", RAW_ENDLESS)]
        until(lambda: served.metric("num_requests_running") == 1)
        connections.append(served.send("/v1/chat/completions", RAW_ENDLESS))
        until(lambda: served.metric("num_requests_waiting") == 1)
        with connect(served) as once, pytest.raises(openai.InternalServerError) as full:
            once.chat.completions.create(**HI)
        assert (full.value.status_code, full.value.code) == (503, "overloaded")

        refused = []
        with connect(served, max_retries=5) as patient:

            def leave(response):
                refused.append(response.status_code)
                for connection in connections:
                    connection.close()

            patient._client.event_hooks = {"response": [leave]}
            answer = patient.chat.completions.create(**HI, max_tokens=2)
        assert answer.usage.completion_tokens == 2
        assert refused[0] == 503
        assert refused[-1] == 200


def test_who_has_no_patience_for_an_answer_frees_the_engine(served, api):
    with pytest.raises(openai.APITimeoutError):
        api.with_options(timeout=0.5).chat.completions.create(**ENDLESS)
    until(served.idle)
    assert api.chat.completions.create(**HI, max_tokens=1).usage.completion_tokens == 1


def test_who_has_no_patience_for_the_line_leaves_it(served, api):
    busy = served.send("/v1/chat/completions", RAW_ENDLESS)
    until(lambda: served.metric("num_requests_running") == 1)
    quick = api.with_options(timeout=0.02)  # shorter than the time between two signs of life
    with pytest.raises(openai.APITimeoutError):
        list(quick.chat.completions.create(**HI, stream=True))
    until(lambda: served.metric("num_requests_waiting") == 0)
    assert served.metric("num_requests_running") == 1
    busy.close()
    until(served.idle)


def test_tasks_that_are_cancelled_leave_the_others_alone(served, api):
    body = {**HI, "temperature": 0.9, "max_tokens": 12}
    alone = [
        api.chat.completions.create(**body, seed=seed).choices[0].message.content
        for seed in range(4)
    ]

    async def ask(client, seed):
        answer = await client.chat.completions.create(**body, seed=seed)
        return answer.choices[0].message.content

    async def read(client):
        stream = await client.chat.completions.create(**ENDLESS, stream=True)
        async for _ in stream:
            begun.set()

    async def all_of_them():
        async with connect_async(served) as client:
            reading = asyncio.create_task(read(client))
            await begun.wait()
            asking = [asyncio.create_task(ask(client, seed)) for seed in range(4)]
            endless = [
                asyncio.create_task(client.chat.completions.create(**ENDLESS)) for _ in range(3)
            ]
            while served_waiting() < 7:
                await asyncio.sleep(0.01)
            for task in (*endless, reading):
                task.cancel()
            await asyncio.wait((*endless, reading))
            assert all(task.cancelled() for task in (*endless, reading))
            return await asyncio.gather(*asking)

    begun = asyncio.Event()
    worker = served.app.state.worker

    def served_waiting():
        return len(worker._line)

    assert asyncio.run(all_of_them()) == alone
    until(served.idle)
