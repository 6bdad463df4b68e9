"""Requests made from the OpenAPI schema, right and wrong ones: none is a defect."""

from __future__ import annotations

import json

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis.generation import GenerationMode

COMPLETIONS = ["/v1/chat/completions", "/v1/completions"]
ROUTES = [*COMPLETIONS, "/tokenize", "/detokenize"]
LIMITS = {"max_tokens": 1, "max_completion_tokens": 1, "n": 1}  # a long answer has little to add


@pytest.fixture(scope="module")
def schema(client):
    return schemathesis.openapi.from_dict(client.app.openapi())


@pytest.fixture(params=[12, pytest.param(1000, marks=pytest.mark.full)])
def examples(request):
    return request.param


def sent(route, body):
    """What goes over the wire: the body with the served model, and with short answers where it
    asks for answers."""
    if isinstance(body, dict) and isinstance(body.get("model"), str):
        body = {**body, "model": "embedded"}
    if route in COMPLETIONS and isinstance(body, dict):
        limited = {name: least for name, least in LIMITS.items() if isinstance(body.get(name), int)}
        body = {**body, **limited} | ({} if limited else {"max_tokens": 1})
    return json.dumps(body, default=str)


@pytest.mark.parametrize("mode", GenerationMode)
@pytest.mark.parametrize("route", ROUTES)
def test_no_request_of_the_schema_is_a_defect(client, schema, route, mode, examples):
    @given(case=schema[route]["POST"].as_strategy(generation_mode=mode))
    @settings(
        max_examples=examples,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    def ask(case):
        headers = {"content-type": "application/json"}
        response = client.post(route, content=sent(route, case.body), headers=headers)
        assert response.status_code in (200, 400, 404), response.text
        if response.status_code != 200:
            assert set(response.json()["error"]) == {"message", "type", "param", "code"}

    ask()


@pytest.mark.parametrize("name", ["../../etc/passwd", "%2e%2e", "a" * 5000, "%00", "é", "?", "//"])
def test_no_name_of_a_model_is_more_than_a_name(client, name):
    response = client.get(f"/v1/models/{name}")
    assert response.status_code in (404, 200)
    assert "root:" not in response.text
