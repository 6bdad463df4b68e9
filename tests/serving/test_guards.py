from __future__ import annotations

import asyncio
import json

import pytest
from test_refusals import CHAT, HELLO, refused

from hybridspec.errors import OptionError
from hybridspec.serving import Settings
from hybridspec.serving.guards import BodyLimit

ASK = {"messages": HELLO, "max_tokens": 1}


def test_a_key_is_asked_for_where_one_is_set(make_client):
    client = make_client(api_key="open sesame")
    for headers in ({}, {"Authorization": "Bearer open"}, {"Authorization": "Basic open sesame"}):
        assert (
            refused(client.post(CHAT, json=ASK, headers=headers), 401)["code"] == "invalid_api_key"
        )
    refused(client.get("/v1/models"), 401)
    refused(client.get("/openapi.json"), 401)
    refused(client.post("/tokenize", json={"prompt": "a"}), 401)
    right = {"Authorization": "Bearer open sesame"}
    assert client.post(CHAT, json=ASK, headers=right).status_code == 200
    for path in ("/health", "/metrics", "/version"):
        assert client.get(path).status_code == 200


def test_a_key_with_other_characters_is_compared_by_its_bytes(make_client):
    client = make_client(api_key="schlüssel")
    right = {b"Authorization": "Bearer schlüssel".encode()}
    assert client.get("/v1/models", headers=right).status_code == 200
    refused(client.get("/v1/models", headers={b"Authorization": b"Bearer \xff"}), 401)


def test_a_key_is_not_shown():
    assert "sesame" not in repr(Settings(api_key="sesame"))


def test_other_names_of_the_host_are_refused(make_client):
    client = make_client(allowed_hosts=("localhost", "[::1]"))
    for host in ("localhost", "LOCALHOST:8000", "[::1]", "[::1]:8000"):
        assert client.get("/health", headers={"Host": host}).status_code == 200
    for host in ("evil.example", "localhost.evil.example", "evil.example:8000", ""):
        assert refused(client.get("/health", headers={"Host": host}), 403)["code"] == "unknown_host"


def test_other_origins_may_not_read_answers_unless_named(client, make_client):
    page = {"Origin": "http://page.example"}
    assert "access-control-allow-origin" not in client.get("/version", headers=page).headers
    named = make_client(allowed_origins=("http://page.example",), api_key="k")
    answer = named.get("/version", headers=page)
    assert answer.headers["access-control-allow-origin"] == "http://page.example"
    asking = {**page, "Access-Control-Request-Method": "POST"}
    assert named.options(CHAT, headers=asking).status_code == 200


def test_a_long_body_is_refused(make_client):
    client = make_client(max_body=200)
    assert client.post(CHAT, json=ASK).status_code == 200
    long = json.dumps({**ASK, "user": "u" * 200})
    headers = {"content-type": "application/json"}
    assert (
        refused(client.post(CHAT, content=long, headers=headers), 413)["code"] == "body_too_large"
    )

    def pieces():
        yield from (long[i : i + 50].encode() for i in range(0, len(long), 50))

    refused(client.post(CHAT, content=pieces(), headers=headers), 413)


def test_an_endless_body_is_not_read_to_its_end():
    """Without a length, what is read is bounded all the same."""
    sent, read = [], 0

    async def receive():
        nonlocal read
        read += 1
        return {"type": "http.request", "body": b"x" * 10, "more_body": True}

    async def send(message):
        sent.append(message)

    async def never(scope, receive, send):
        raise AssertionError

    scope = {"type": "http", "headers": [], "method": "POST", "path": "/"}
    asyncio.run(BodyLimit(never, 100)(scope, receive, send))
    assert sent[0]["status"] == 413
    assert read == 11


@pytest.mark.parametrize(
    "wrong",
    [
        {"names": ()},
        {"names": ("",)},
        {"max_waiting": 0},
        {"max_body": 0},
        {"max_tokens": 0},
        {"metrics_prefix": "a-b"},
        {"metrics_prefix": ""},
        {"api_key": ""},
        {"api_key": "a\nb"},
        {"keep_alive": 0},
    ],
    ids=str,
)
def test_settings_that_cannot_be_used_are_refused(wrong):
    with pytest.raises(OptionError) as refusal:
        Settings(**wrong)
    assert refusal.value.name in wrong


def test_hosts_and_origins_are_compared_as_browsers_write_them(make_client):
    client = make_client(allowed_hosts=("My.Example",), allowed_origins=("http://A.b/",))
    headers = {"Host": "my.Example", "Origin": "http://a.b"}
    response = client.get("/health", headers=headers)
    assert response.status_code == 200
    assert response.headers["access-control-allow-origin"] == "http://a.b"


def test_a_name_that_is_not_unicode_is_refused():
    with pytest.raises(OptionError, match="UTF-8"):
        Settings(names=("good", "bad\udcff"))
