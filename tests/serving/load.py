"""Many clients at once: requests of all kinds, some of which are given up somewhere on the way."""

from __future__ import annotations

import random
import threading
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import httpx
from served import events

TOPICS = ("gardening", "the sea", "old clocks", "bread", "a long walk", "music", "rain")
SAMPLINGS: tuple[dict[str, Any], ...] = (
    {"temperature": 0},
    {"temperature": 0, "presence_penalty": 0.5},
    {"temperature": 1.0, "top_p": 0.9, "top_k": 40},
    {"temperature": 0.7, "min_p": 0.05, "logit_bias": {"17": -5}},
)
SYSTEMS = ("auto", "static:4", "dflash", "ar")


def request(number: int) -> dict[str, Any]:
    """Request `number`: its sampling, length, decoding system and way to be sent."""
    draw = random.Random(number)
    content = f"Tell me about {draw.choice(TOPICS)}. " * draw.choice((1, 1, 3, 40))
    return {
        "messages": [{"role": "user", "content": content}],
        "max_tokens": draw.choice((1, 3, 8, 24, 48)),
        "seed": number,
        "stream": draw.random() < 0.5,
        "system": draw.choice(SYSTEMS),
        "user": f"client {draw.randrange(8)}",
        **draw.choice(SAMPLINGS),
    }


@dataclass
class Load:
    """A run: what was answered, by the request's number, and how the others ended."""

    url: str
    given_up: float
    texts: dict[int, str] = field(default_factory=dict)
    ends: Counter[str] = field(default_factory=Counter)

    def run(self, numbers: range, clients: int) -> None:
        """Send the requests from so many clients at once, and see all of them end."""
        left, lock = iter(numbers), threading.Lock()

        def client() -> None:
            with httpx.Client(base_url=self.url, timeout=600) as http:
                while True:
                    with lock:
                        number = next(left, None)
                    if number is None:
                        return
                    self._one(http, number)

        threads = [threading.Thread(target=client) for _ in range(clients)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def _one(self, http: httpx.Client, number: int) -> None:
        body, draw = request(number), random.Random(-number)
        if draw.random() < self.given_up:
            self._give_up(http, body, draw.choice((0.01, 0.1, 1.0)))
            return
        response = http.post("/v1/chat/completions", json=body)
        assert response.status_code == 200, response.text
        self.texts[number] = text_of(response.text if body["stream"] else response.json())
        self.ends["answered"] += 1

    def _give_up(self, http: httpx.Client, body: dict[str, Any], seconds: float) -> None:
        """Go away after some time without a byte, or in the middle of what comes."""
        timeout = httpx.Timeout(600, read=seconds)
        try:
            with http.stream("POST", "/v1/chat/completions", json=body, timeout=timeout) as got:
                next(got.iter_raw(), None)
        except httpx.ReadTimeout:
            pass
        self.ends["given up"] += 1


def text_of(answer: str | dict[str, Any]) -> str:
    """The content of a response, whole or streamed."""
    if isinstance(answer, dict):
        return answer["choices"][0]["message"]["content"]
    deltas = (c["delta"] for event in events(answer) for c in event["choices"])
    return "".join(delta.get("content", "") for delta in deltas)
