"""How a server that works ends: killed, and started again; told to end while others wait."""

from __future__ import annotations

import signal
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPException
from pathlib import Path

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
