"""A client of a soak: asks over a connection of its own, reads, or leaves in the middle."""

from __future__ import annotations

import json
import socket
import struct
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPResponse
from typing import Any

from hybridspec.bench.soak.asks import CHAT, Ask
from hybridspec.errors import HybridSpecError

PATIENCE = 600.0  # seconds without a byte, after which a request counts as lost


@dataclass(slots=True)
class Choice:
    """What one choice of a response says.

    Attributes:
        logprobs: of its tokens, and None for the first of a prompt; empty where not asked for.
    """

    text: str = ""
    finish: str | None = None
    logprobs: list[float | None] = field(default_factory=list)

    def add(self, choice: dict[str, Any], path: str) -> None:
        """Take a choice of a response, or of one event of it."""
        said = choice.get("delta", choice.get("message"))
        self.text += (choice["text"] if said is None else said.get("content")) or ""
        self.finish = choice["finish_reason"] or self.finish
        found = choice["logprobs"] or {}
        if path == CHAT:
            self.logprobs += [token["logprob"] for token in found.get("content", ())]
        else:
            self.logprobs += found.get("token_logprobs", ())

    def begins(self, other: Choice) -> bool:
        """Whether this is `other`, or what came of it before its reader left."""
        if self.finish is not None:
            return self == other
        count = len(self.logprobs)
        return other.text.startswith(self.text) and other.logprobs[:count] == self.logprobs


Answer = list[Choice]


class Refused(HybridSpecError):
    """A response that is an error."""

    def __init__(self, status: int, said: str) -> None:
        super().__init__(f"The server answers with {status}: {said}")
        self.status = status


class Client:
    """Asks one request after the other, over one connection for as long as that lasts."""

    def __init__(self, host: str, port: int) -> None:
        """host, port: of the server."""
        self._connection = HTTPConnection(host, port, timeout=PATIENCE)

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    def get(self, path: str) -> str:
        """The text of a page."""
        self._connection.request("GET", path)
        return self._connection.getresponse().read().decode()

    def post(self, path: str, data: bytes) -> HTTPResponse:
        """The response to a body, its head read.

        Raises:
            Refused: it is an error.
        """
        self._send(path, data)
        response = self._connection.getresponse()
        if response.status != 200:
            raise Refused(response.status, response.read().decode(errors="replace"))
        return response

    def whole(self, ask: Ask, **more: Any) -> Answer:
        """The answer in one."""
        response = json.loads(self.post(ask.path, _data(ask, more)).read())
        return _answer(ask.path, [response])

    def stream(self, ask: Ask, *, most: int | None = None, **more: Any) -> Answer:
        """The answer piece by piece.

        Args:
            ask: the request.
            most: how many events to read before leaving; None reads to the end.
            more: further fields of the body.
        """
        response = self.post(ask.path, _data(ask, {"stream": True, **more}))
        events: list[dict[str, Any]] = []
        for event in _events(response):
            if len(events) == most:
                break
            if "error" in event:
                raise Refused(200, json.dumps(event))
            events.append(event)
        else:
            response.read()
        return _answer(ask.path, events)

    def unread(self, ask: Ask, seconds: float, **more: Any) -> None:
        """Ask, and read nothing for some seconds."""
        self._send(ask.path, _data(ask, more))
        time.sleep(seconds)

    def leave(self, *, reset: bool) -> None:
        """Close the connection, with a reset as if the client's process had been killed."""
        made = self._connection.sock
        if made is not None and reset:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._connection.close()

    def _send(self, path: str, data: bytes) -> None:
        self._connection.request("POST", path, data, {"Content-Type": "application/json"})


def _data(ask: Ask, more: dict[str, Any]) -> bytes:
    return json.dumps({**ask.body, **more}).encode()


def _events(response: HTTPResponse) -> Iterator[dict[str, Any]]:
    for line in response:
        if line.startswith(b"data: "):
            data = line.removeprefix(b"data: ").strip()
            if data == b"[DONE]":
                return
            yield json.loads(data)


def _answer(path: str, documents: Sequence[dict[str, Any]]) -> Answer:
    choices: dict[int, Choice] = {}
    for document in documents:
        for choice in document["choices"]:
            choices.setdefault(choice["index"], Choice()).add(choice, path)
    return [choices[index] for index in sorted(choices)]
