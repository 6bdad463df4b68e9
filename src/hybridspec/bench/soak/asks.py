"""What the clients of a soak ask: requests of every kind out of a seed, and some that are wrong."""

from __future__ import annotations

import json
import random
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

CHAT, TEXT = "/v1/chat/completions", "/v1/completions"
CONTEXT = 4096  # of the server that is asked; one of the wrong requests is too long for it
SYSTEMS = (None, "ar", "static:4", "dflash", "auto", "hybridspec")
VOCABULARY = """
the garden clock morning village autumn rain window letter bell river stone why how is was green
quiet old small under across before and or not a bird cat letter song 12 7 Zürich 東京 🌱
"""
WORDS = VOCABULARY.split()


@dataclass(frozen=True, slots=True)
class Ask:
    """A request that is served. Its body is without what changes no answer: stream, system."""

    path: str
    body: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Wrong:
    """A request that is refused, with this status."""

    path: str
    data: bytes
    status: int


WRONG = (
    Wrong(CHAT, b'{"messages": [{"role": "user", "content": "Hi"}], "temperature": -1}', 400),
    Wrong(CHAT, b'{"messages": [], "max_tokens": 1}', 400),
    Wrong(CHAT, b'{"messages": [{"role": "user", "content": "Hi"}], "model": "other"}', 404),
    Wrong(CHAT, b'{"messages": [{"role": "user", "content": "Hi"}], "what": 1}', 400),
    Wrong(TEXT, b'{"prompt": "Hi", "max_tokens": 10', 400),
    Wrong(TEXT, b'{"prompt": [1, 2, 999999999]}', 400),
    Wrong(TEXT, b'{"prompt": "Hi", "stream": true, "system": "static:99"}', 400),
    Wrong(TEXT, b"\xff\xfe\x00", 400),
    Wrong(TEXT, json.dumps({"prompt": "word " * CONTEXT}).encode(), 400),
    Wrong("/v1/embeddings", b"{}", 404),
)


def asks(count: int, seed: int, *, tokens: int = 48, words: int = 250) -> list[Ask]:
    """Requests of mixed kinds.

    Args:
        count: how many.
        seed: the same seed, the same requests.
        tokens: most tokens of an answer.
        words: most words of a prompt; few are that long.
    """
    draw = random.Random(seed)
    return [_ask(draw, tokens, words) for _ in range(count)]


def _ask(draw: random.Random, tokens: int, words: int) -> Ask:
    body = {"max_tokens": draw.randint(1, tokens)} | _sampling(draw) | _limits(draw)
    if draw.random() < 0.5:
        body |= {"messages": _conversation(draw, words)} | _chat_logprobs(draw) | _form(draw)
        if "response_format" in body:
            body.pop("ignore_eos", None)  # such an answer has an end
        return Ask(CHAT, body)
    prompts = [_text(draw, words) for _ in range(draw.choice((1, 1, 1, 2)))]
    body |= {"prompt": prompts}
    if draw.random() < 0.3:
        body |= {"logprobs": draw.randint(0, 5), "echo": draw.random() < 0.5}
    return Ask(TEXT, body)


def _sampling(draw: random.Random) -> dict[str, Any]:
    if draw.random() < 0.4:
        return {"temperature": 0}
    sampling = {"temperature": draw.choice((0.5, 0.9, 1.3)), "seed": draw.getrandbits(40)}
    filters = {"top_p": 0.9, "top_k": 40, "min_p": 0.02}
    return sampling | {name: filters[name] for name in filters if draw.random() < 0.5}


def _limits(draw: random.Random) -> dict[str, Any]:
    """Penalties, stops, several choices: each in some of the requests."""
    made = {
        "presence_penalty": 0.8,
        "frequency_penalty": 0.4,
        "repetition_penalty": 1.2,
        "logit_bias": {"290": -100, "714": 3},
        "stop": [" the", "\n\n"],
        "ignore_eos": True,
        "n": draw.randint(2, 3),
    }
    return {name: value for name, value in made.items() if draw.random() < 0.15}


def _chat_logprobs(draw: random.Random) -> dict[str, Any]:
    return {"logprobs": True, "top_logprobs": 3} if draw.random() < 0.2 else {}


def _form(draw: random.Random) -> dict[str, Any]:
    """JSON by a schema, where the machine has what that needs."""
    if draw.random() > 0.15 or find_spec("xgrammar") is None:
        return {}
    names = draw.sample(WORDS, 2)
    schema = {"type": "object", "properties": {name: {"type": "integer"} for name in names}}
    named = {"name": "numbers", "schema": {**schema, "required": names}}
    return {"response_format": {"type": "json_schema", "json_schema": named}}


def _conversation(draw: random.Random, words: int) -> list[dict[str, str]]:
    """One to three turns; some begin alike, as conversations that go on do."""
    first = random.Random(draw.randrange(4))
    turns = [{"role": "user", "content": _text(first, words)}]
    for _ in range(draw.choice((0, 0, 1, 2))):
        turns.append({"role": "assistant", "content": _text(first, 20)})
        turns.append({"role": "user", "content": _text(draw, 30)})
    return turns


def _text(draw: random.Random, most: int) -> str:
    count = 1 + int((most - 1) * draw.random() ** 4)  # most prompts are short
    return " ".join(draw.choice(WORDS) for _ in range(count))
