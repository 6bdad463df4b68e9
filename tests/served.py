"""Applications on a port of the loopback, for clients that are real."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import httpx
import uvicorn
from fastapi import FastAPI


@dataclass(frozen=True)
class Served:
    """A server that runs, and a client that knows where."""

    app: FastAPI
    port: int
    client: httpx.Client
    leave: Callable[[], None]  # begin to end, and do not wait

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def metric(self, name: str) -> float:
        """A figure without labels but the model's."""
        return metric(self.client.get("/metrics").text, name)

    def post(self, path: str, body: dict[str, Any]) -> httpx.Response:
        """A response that must be one."""
        response = self.client.post(path, json=body)
        assert response.status_code == 200, response.text
        return response

    def send(self, path: str, body: dict[str, Any]) -> socket.socket:
        """A connection on which a request has been sent and nothing read."""
        data = json.dumps(body).encode()
        made = socket.create_connection(("127.0.0.1", self.port))
        head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        made.sendall(f"{head}Content-Length: {len(data)}\r\n\r\n".encode() + data)
        return made

    def idle(self) -> bool:
        """Whether nobody waits and the engine is at rest."""
        names = ("num_requests_waiting", "num_requests_running")
        return all(self.metric(name) == 0 for name in names)


@contextmanager
def serve(app: FastAPI) -> Iterator[Served]:
    """Run an application, loaded, until the end of the context."""
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="critical", ws="none"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    until(lambda: server.started)
    port = server.servers[0].sockets[0].getsockname()[1]
    with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=120) as client:
        made = Served(app, port, client, lambda: setattr(server, "should_exit", True))
        until(lambda: client.get("/health").status_code == 200)
        yield made
    made.leave()
    thread.join(60)
    assert not thread.is_alive()


def metric(text: str, name: str) -> float:
    """A figure of Prometheus' text without labels but the model's."""
    lines = [line for line in text.splitlines() if f":{name}{{model_name=" in line]
    assert len(lines) == 1, (name, lines)
    return float(lines[0].split()[-1])


def until(holds: Callable[[], bool], seconds: float = 120.0) -> None:
    """Wait until something holds."""
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, "it never came to hold"
        time.sleep(0.01)


def events(text: str) -> list[dict[str, Any]]:
    """The documents of a stream, which must end with `[DONE]`."""
    lines = [line for line in text.split("\n\n") if line and not line.startswith(":")]
    assert all(line.startswith("data: ") for line in lines), lines
    assert lines[-1] == "data: [DONE]"
    return [json.loads(line.removeprefix("data: ")) for line in lines[:-1]]
