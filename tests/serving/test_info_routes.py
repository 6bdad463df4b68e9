from __future__ import annotations

import pytest
from openai.types import Model

import hybridspec
from hybridspec.text.chat import ChatTemplate


def test_models_and_their_names(make_client):
    client = make_client(names=("owner/model", "short"))
    models = client.get("/v1/models").json()
    assert [model["id"] for model in models["data"]] == ["owner/model", "short"]
    for model in models["data"]:
        Model.model_validate(model, strict=True)
        assert model["max_model_len"] == 32768
    assert client.get("/v1/models/owner/model").json() == models["data"][0]
    ask = {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 1, "model": "short"}
    assert client.post("/v1/chat/completions", json=ask).json()["model"] == "owner/model"


def test_version_and_health(client):
    assert client.get("/version").json() == {"version": hybridspec.__version__}
    assert client.get("/health").json() == {"status": "ok"}


def test_metrics_are_prometheus_text(client):
    response = client.get("/metrics")
    assert response.headers["content-type"].startswith("text/plain; version=")
    assert "# TYPE hybridspec:round_seconds histogram" in response.text


def test_tokens_and_back(client, engine):
    text = "Grüße from the garden 🌱<|im_end|>"
    document = client.post("/tokenize", json={"prompt": text, "return_token_strs": True}).json()
    assert document["tokens"] == engine.encode(text)
    assert document["count"] == len(document["tokens"])
    assert document["max_model_len"] == engine.max_context
    assert document["token_strs"][-1] == "<|im_end|>"
    assert any(token.startswith("bytes:\\xf0") for token in document["token_strs"])
    back = client.post("/detokenize", json={"tokens": document["tokens"]}).json()
    assert back == {"prompt": text}


def test_a_conversation_has_the_tokens_of_its_chat(client, engine):
    messages = [{"role": "user", "content": "Hello"}]
    body = {"messages": messages, "max_tokens": 1, "return_token_ids": True}
    asked = client.post("/v1/chat/completions", json=body).json()["prompt_token_ids"]
    assert client.post("/tokenize", json={"messages": messages}).json()["tokens"] == asked
    alone = client.post("/tokenize", json={"messages": messages, "add_generation_prompt": False})
    count = alone.json()["count"]
    assert alone.json()["tokens"] == asked[:count]
    assert count < len(asked)


def test_clients_can_render_by_themselves(client, engine):
    document = client.get("/tokenizer_info").json()
    assert document["eos_token"] == "<|im_end|>"
    assert document["bos_token"] is None
    messages = [{"role": "user", "content": "Hello"}]
    rendered = ChatTemplate(document["chat_template"], {}).render(messages, enable_thinking=False)
    assert engine.encode(rendered) == engine.encode(messages)


def test_the_schema_names_every_route(client):
    paths = client.get("/openapi.json").json()["paths"]
    assert set(paths) == {
        "/v1/chat/completions",
        "/v1/completions",
        "/v1/models",
        "/v1/models/{name}",
        "/tokenize",
        "/detokenize",
        "/tokenizer_info",
        "/health",
        "/metrics",
        "/version",
    }


def test_health_answers_to_head(client):
    response = client.head("/health")
    assert (response.status_code, response.content) == (200, b"")


@pytest.mark.parametrize("path", ["/docs", "/redoc"])
def test_there_are_no_pages_that_load_from_elsewhere(client, path):
    assert client.get(path).status_code == 404
