from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from hybridspec.cli.loading import Pair
from hybridspec.cli.serve import _hosts, _name


@contextmanager
def serving(*arguments: str, **environment: str) -> Iterator[subprocess.Popen]:
    """The command in a process of its own; its lines are read from `stdout`."""
    command = [sys.executable, "-m", "hybridspec", "serve", "--port", "0", *arguments]
    environment = {**os.environ, "PYTHONUNBUFFERED": "1", "OMP_NUM_THREADS": "1", **environment}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, env=environment, **pipes) as process:
        try:
            yield process
        finally:
            process.kill()


def address(line: str) -> str:
    return next(word for word in line.split() if word.startswith("http://")).rstrip(";,:")


def get(url: str, body: dict | None = None, **headers: str) -> dict:
    data = None if body is None else json.dumps(body).encode()
    headers = {"Content-Type": "application/json", **headers}
    with urllib.request.urlopen(urllib.request.Request(url, data, headers), timeout=120) as got:
        return json.load(got)


def test_it_serves_and_drains(pair):
    folders = pair("cycle")
    arguments = (str(folders.target), "--draft", str(folders.draft), "--system", "static:3")
    with serving(*arguments, "--max-context", "512", HYBRIDSPEC_API_KEY="k") as process:
        listening, ready = process.stdout.readline(), process.stdout.readline()
        url = address(listening)
        assert url.startswith("http://127.0.0.1:")
        assert ready.startswith(f"Serving {folders.target.name} at {url}/v1: system static:3, ")
        assert "profile none, float32 on cpu, context 512, " in ready
        with pytest.raises(urllib.error.HTTPError) as refused:
            get(f"{url}/v1/models")
        assert refused.value.code == 401
        key = {"Authorization": "Bearer k"}
        [model] = get(f"{url}/v1/models", **key)["data"]
        assert (model["id"], model["max_model_len"]) == (folders.target.name, 512)
        asked = {"prompt": "abc", "max_tokens": 3, "temperature": 0}
        assert get(f"{url}/v1/completions", asked, **key)["choices"][0]["text"] == "def"
        with pytest.raises(urllib.error.HTTPError) as refused:
            get(f"{url}/health", Host="elsewhere.example")
        assert refused.value.code == 403

        long = json.dumps({**asked, "max_tokens": 200, "stream": True}).encode()
        headers = {"Content-Type": "application/json", **key}
        request = urllib.request.Request(f"{url}/v1/completions", long, headers)
        with urllib.request.urlopen(request, timeout=120) as answer:
            first = answer.readline()
            process.send_signal(signal.SIGTERM)
            rest = answer.read().decode()
        assert first.startswith(b"data: ")
        assert '"finish_reason": "length"' in rest
        assert rest.endswith("data: [DONE]\n\n")
        assert process.wait(60) == 0
        told = "Ending. Requests under way: 1, given up to 30 s; a second signal cuts them off.\n"
        assert process.stderr.read() in ("", told)  # the answer may have been there already


def test_a_model_that_is_not_there_ends_it_with_a_sentence():
    with serving("/nowhere/at/all") as process:
        assert process.wait(120) == 2
        said = process.stderr.read()
        assert said.startswith("Error: There is no checkpoint at '/nowhere/at/all'")
        assert said.count("\n") == 1


def test_a_port_that_is_taken_is_said_before_the_model_loads(command):
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = str(other.getsockname()[1])
        command("serve", "--port", port).refused(port, "another server has it", "--port 0")


def test_an_address_of_another_machine_is_refused(command):
    command("serve", "--host", "192.0.2.1", "--port", "0").refused("192.0.2.1", "--host")
    command("serve", "--host", "no such name", "--port", "0").refused("'no such name'", "--host")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--port", "65536"), ("--port", "65535")),
        (("--max-waiting", "0"), ("--max-waiting", "at least 1")),
        (("--max-tokens", "0"), ("--max-tokens", "at least 1")),
        (("--metrics-prefix", "a-b"), ("--metrics-prefix", "letters")),
        (("--api-key", " "), ("--api-key", "expected a key")),
        (("--allowed-host", "http://x"), ("--allowed-host", "without http://")),
        (("--served-model-name", ""), ("--served-model-name", "one name or more")),
        (("a", "b"), ("b",)),
    ],
    ids=str,
)
def test_options_that_cannot_be_used_are_refused(command, arguments, words):
    command("serve", *arguments).refused(*words)


def test_a_folder_is_called_by_its_last_part(tmp_path):
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "config.json").write_text("{}")
    assert _name(Pair(str(tmp_path / "model"))) == "model"
    assert _name(Pair("owner/name")) == "owner/name"
    assert _name(Pair()) == "embedded"


def test_only_the_machines_own_names_are_served_on_its_own_address():
    assert set(_hosts("127.0.0.1", None)) == {"localhost", "127.0.0.1", "[::1]"}
    assert "box.lan" in _hosts("127.0.0.1", ["box.lan"])
    assert _hosts("0.0.0.0", None) == ()
    assert _hosts("0.0.0.0", ["box.lan"]) == ("box.lan",)
