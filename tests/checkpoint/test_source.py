"""Folders, the Hub's cache offline, and a server that refuses as the Hub does."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from hybridspec.checkpoint import resolve
from hybridspec.errors import CheckpointError

COMMIT = "0123456789abcdef0123456789abcdef01234567"
# huggingface_hub reads its variables when it is imported: they are set for a process of its own.
PROGRAM = """
import json, sys
from hybridspec.checkpoint.source import resolve
from hybridspec.errors import CheckpointError
answers = []
for source, revision in json.loads(sys.argv[1]):
    try:
        answers.append(str(resolve(source, revision)))
    except CheckpointError as error:
        answers.append("refused: " + str(error))
print(json.dumps(answers))
"""


def ask_offline(requests: list[tuple[str, str | None]], home: Path) -> list[str]:
    """What `resolve` answers in a process with HF_HUB_OFFLINE: a path, or `refused: ...`."""
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("HF_", "HUGGING"))}
    clean |= {"HF_HOME": str(home), "HF_HUB_OFFLINE": "1"}
    command = [sys.executable, "-c", PROGRAM, json.dumps(requests)]
    done = subprocess.run(command, env=clean, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture
def hub(home, monkeypatch):
    """A function that sets the Hub's address, with the cache at `home`."""
    import huggingface_hub
    from huggingface_hub import constants

    monkeypatch.setenv("NO_PROXY", "*")
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(home / "hub"))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    huggingface_hub.close_session()  # the next one reads the variables anew
    yield lambda address: monkeypatch.setattr(constants, "ENDPOINT", address)
    huggingface_hub.close_session()


def refusal(source: str, revision: str | None = None) -> str:
    with pytest.raises(CheckpointError) as raised:
        resolve(source, revision)
    assert "\n" not in str(raised.value)
    return str(raised.value)


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A Hub cache with one model at one commit, as a download leaves it."""
    home = tmp_path_factory.mktemp("home")
    model = home / "hub" / "models--owner--name"
    (model / "refs").mkdir(parents=True)
    (model / "refs" / "main").write_text(COMMIT)
    (model / "snapshots" / COMMIT).mkdir(parents=True)
    (model / "snapshots" / COMMIT / "config.json").write_text("{}")
    return home


def cached(home: Path) -> str:
    return str(home / "hub" / "models--owner--name" / "snapshots" / COMMIT)


class TestFolders:
    def test_a_folder_is_itself(self, tmp_path):
        (tmp_path / "config.json").write_text("{}")
        assert resolve(tmp_path) == tmp_path
        assert resolve(str(tmp_path)) == tmp_path

    def test_home_is_expanded(self, tmp_path, monkeypatch):
        (tmp_path / "model").mkdir()
        (tmp_path / "model" / "config.json").write_text("{}")
        monkeypatch.setenv("HOME", str(tmp_path))
        assert resolve("~/model") == tmp_path / "model"

    def test_a_folder_named_like_a_hub_id_wins(self, tmp_path, monkeypatch):
        (tmp_path / "owner" / "name").mkdir(parents=True)
        (tmp_path / "owner" / "name" / "config.json").write_text("{}")
        monkeypatch.chdir(tmp_path)
        assert resolve("owner/name") == Path("owner/name")

    def test_an_empty_folder_is_named(self, tmp_path):
        with pytest.raises(CheckpointError, match=f"folder {tmp_path} is empty"):
            resolve(tmp_path)

    def test_a_file_is_named(self, tmp_path):
        (tmp_path / "x.gguf").write_text("x")
        with pytest.raises(CheckpointError, match=r"x\.gguf is a file; expected the checkpoint"):
            resolve(tmp_path / "x.gguf")

    @pytest.mark.parametrize(
        "source", ["", "name", "/a/b", "./a/b", "../a", "a/b/c", "a b/c", Path("owner/name")]
    )
    def test_what_is_neither_a_folder_nor_an_id_is_named(self, source):
        with pytest.raises(CheckpointError, match="There is no checkpoint at"):
            resolve(source)

    def test_a_folder_that_may_not_be_read_is_named(self, tmp_path, monkeypatch):
        def refuse(path):
            raise PermissionError(13, "Permission denied", str(path))

        monkeypatch.setattr(Path, "iterdir", refuse)  # root, which CI may be, may read everything
        with pytest.raises(CheckpointError, match=r"cannot be read: .*Permission denied"):
            resolve(tmp_path)

    @pytest.mark.parametrize("source", ["a" * 5000, "~no-such-user/model"])
    def test_an_impossible_path_is_named(self, source):
        with pytest.raises(CheckpointError, match=f"{source} cannot be read"):
            resolve(source)


def test_the_cache_serves_offline(home):
    asked = [("owner/name", None), ("owner/name", "main"), ("owner/name", COMMIT)]
    asked += [("other/name", None), ("owner/name", "v2"), ("owner/name", "f" * 40)]
    found = ask_offline(asked, home)
    assert found[:3] == [cached(home)] * 3
    for answer, name in zip(found[3:], ["other/name", "revision v2", "f" * 40], strict=True):
        assert answer.startswith("refused: There is no folder")
        assert "HF_HUB_OFFLINE" in answer
        assert name in answer


def test_without_a_network_the_cache_serves_and_the_rest_is_explained(home, hub):
    hub("http://127.0.0.1:9")  # the discard port: nobody listens
    for revision in (None, "main", COMMIT):
        assert str(resolve("owner/name", revision)) == cached(home)
    for source, revision in (("other/name", None), ("owner/name", "f" * 40)):
        said = refusal(source, revision)
        assert f"There is no folder '{source}' here" in said
        assert "the Hub cannot be reached" in said


class Refusals(BaseHTTPRequestHandler):
    """Answers as the Hub does: the code is the repository's name."""

    HEADERS = (
        ("absent", 404, "RepoNotFound"),
        ("gated", 403, "GatedRepo"),
        ("revision", 404, "RevisionNotFound"),
        ("private", 401, None),
        ("broken", 500, None),
    )

    def do_GET(self):
        for name, code, error in self.HEADERS:
            if f"owner/{name}" in self.path:
                self.send_response(code)
                if error:
                    self.send_header("X-Error-Code", error)
                self.send_header("Content-Length", "0")
                self.end_headers()

    do_HEAD = do_GET

    def log_message(self, *arguments):
        pass


@pytest.fixture
def refusing(hub):
    server = ThreadingHTTPServer(("127.0.0.1", 0), Refusals)
    Thread(target=server.serve_forever, daemon=True).start()
    hub(f"http://127.0.0.1:{server.server_port}")
    yield
    server.shutdown()
    server.server_close()


@pytest.mark.usefixtures("refusing")
@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("owner/absent", "neither a folder 'owner/absent' here nor a repository"),
        ("owner/gated", "owner/gated is gated: accept its terms"),
        ("owner/revision", "owner/revision has no revision 'v9'"),
        ("owner/private", "does not show owner/private to this user; set HF_TOKEN"),
        ("owner/a--b", "'owner/a--b' is not a valid Hub id"),
    ],
)
def test_what_the_hub_refuses_is_explained(source, words):
    assert words in refusal(source, "v9")


@pytest.mark.usefixtures("refusing")
def test_a_hub_that_fails_is_explained():
    assert "Hub cannot be reached" in refusal("owner/broken")
