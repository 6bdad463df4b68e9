"""How a server that works ends: killed, and started again; told to end while others wait."""

from __future__ import annotations

import contextlib
import json
import signal
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPException
from pathlib import Path

import httpx
import pytest

from hybridspec.bench.soak.asks import TEXT, Ask
from hybridspec.bench.soak.client import Client
from hybridspec.bench.soak.server import HOST, serving

SHORT = Ask(TEXT, {"prompt": "abc", "max_tokens": 5, "temperature": 0})
LONG = Ask(TEXT, {"prompt": "abc", "max_tokens": 150, "temperature": 0, "system": "ar"})


@pytest.fixture
def arguments(pair):
    folders = pair("cycle")
    return (str(folders.target), "--draft", str(folders.draft), "--max-context", "512")


def ask(port: int, what: Ask):
    with Client(HOST, port) as client:
        return client.whole(what)


def test_after_a_kill_it_comes_back_and_nothing_is_to_be_repaired(
    arguments, tmp_path, tmp_path_factory, monkeypatch
):
    for name in ("HOME", "TMPDIR", "XDG_CACHE_HOME", "HF_HOME"):
        monkeypatch.setenv(name, str(tmp_path))
    folder = tmp_path_factory.getbasetemp()

    def files() -> list[Path]:
        return sorted(folder.rglob("*"))

    before = files()
    with serving(arguments) as server:
        wanted = ask(server.port, SHORT)
        with Client(HOST, server.port) as client:
            response = client.post(TEXT, b'{"prompt": "abc", "max_tokens": 400, "stream": true}')
            assert response.readline().startswith(b"data: ")
            assert server.stop(signal.SIGKILL) == -signal.SIGKILL
            with pytest.raises((HTTPException, OSError)):
                response.read()
    assert files() == before
    with serving(arguments, port=server.port) as again:
        assert again.port == server.port
        assert ask(again.port, SHORT) == wanted
        assert again.stop() == 0
    assert files() == before


def test_told_to_end_it_serves_who_waits_already(arguments):
    with serving(arguments) as server, ThreadPoolExecutor(4) as clients:
        asked = [clients.submit(ask, server.port, LONG) for _ in range(4)]
        while server.figures().waiting < 2:
            assert not all(answer.done() for answer in asked)
        assert server.stop() == 0
        first, *others = [answer.result() for answer in asked]
        assert first[0].finish == "length"
        assert others == [first] * 3
        with pytest.raises(ConnectionRefusedError):
            ask(server.port, SHORT)


ENDLESS = {"prompt": "abc", "max_tokens": 10**6, "ignore_eos": True, "system": "ar"}


@contextlib.contextmanager
def busy(arguments, drain: str):
    """A server, its port, and connections: a stream under way, and an answer that waits."""
    command = [sys.executable, "-m", "hybridspec", "serve", *arguments, "--port", "0"]
    command[command.index("512")] = "30000"
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen([*command, "--drain", drain], **pipes) as process:
        try:
            url = process.stdout.readline().split()[2].rstrip(";")
            process.stdout.readline()
            port = int(url.rpartition(":")[2])
            stream = sent(port, json.dumps({**ENDLESS, "stream": True}))
            assert stream.recv(10000).startswith(b"HTTP/1.1 200")
            whole = sent(port, json.dumps(ENDLESS))
            httpx.get(f"{url}/health")
            yield process, port, [stream, whole]
        finally:
            process.kill()


def check_cut(process, connections, code: int) -> str:
    """Each is told, the stream in its last event, and the process ends as it should; what it said
    on standard error."""
    stream, *others = [everything(connection) for connection in connections]
    assert process.wait(60) == code
    said = '"The server is shutting down."'
    assert all(answer.startswith("HTTP/1.1 503") and said in answer for answer in others)
    assert said in stream
    assert "data: [DONE]" in stream
    told = process.stderr.read()
    assert "Traceback" not in told
    return told


def test_what_is_cut_off_is_told_so(arguments):
    """A stream, one that waits, and a request whose body does not come."""
    with busy(arguments, drain="0") as (process, port, connections):
        half = sent(port, "{}", more=10)
        httpx.get(f"http://{HOST}:{port}/health")
        process.send_signal(signal.SIGTERM)
        assert "Ending" not in check_cut(process, [*connections, half], 0)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 0), (signal.SIGINT, 130)])
def test_a_second_signal_does_not_wait_for_the_drain(arguments, number, code):
    with busy(arguments, drain="3600") as (process, port, connections):
        process.send_signal(number)
        with contextlib.suppress(ConnectionRefusedError):
            while True:
                socket.create_connection((HOST, port)).close()
        process.send_signal(number)
        told = check_cut(process, connections, code)
        assert "Requests under way: 2, given up to 3600 s; a second signal cuts them off." in told


def sent(port: int, body: str, more: int = 0) -> socket.socket:
    """A connection with a request, whose body has so many bytes less than it says."""
    made = socket.create_connection((HOST, port), timeout=60)
    head = f"POST {TEXT} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    made.sendall(f"{head}Content-Length: {len(body) + more}\r\n\r\n{body}".encode())
    return made


def everything(connection: socket.socket) -> str:
    with connection:
        return b"".join(iter(lambda: connection.recv(10**6), b"")).decode()
