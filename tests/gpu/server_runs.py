"""Servers around the embedded pair on a device, and a client that hears token by token.

HYBRIDSPEC_TEST_DEVICE=cpu takes the same tests through a CPU.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from hybridspec import Engine, assets
from hybridspec.placement import choose_device, choose_dtype
from hybridspec.profiles import runtime_identity
from hybridspec.serving import Settings, create_app
from served import Served, events, serve

DEVICE = os.environ.get("HYBRIDSPEC_TEST_DEVICE", "cuda")
CHAT, TEXT = "/v1/chat/completions", "/v1/completions"
Body = dict[str, Any]


def profile_here(folder: Path) -> Path:
    """The embedded pair's profile as if of this device, in the numbers that `auto` takes there:
    another machine's, which is a policy like any."""
    body, place = json.loads(assets.PROFILE.read_text("utf-8")), choose_device(DEVICE)
    body["runtime"] |= runtime_identity(place, choose_dtype("auto", place))
    path = folder / "profile.json"
    path.write_text(json.dumps(body))
    return path


@contextmanager
def server(profile: Path, **options: Any) -> Iterator[Served]:
    """A server whose default is the paper's policy; options: of `Engine.load`."""
    engine = Engine.load(
        assets.TARGET, assets.DRAFTER, device=DEVICE, profile=profile, progress=False, **options
    )
    with serve(create_app(engine, Settings(system="hybridspec"))) as made:
        yield made


def engine_of(served: Served) -> Engine:
    return served.app.state.worker.engine


@dataclass(frozen=True)
class Heard:
    """A choice as a client puts it together."""

    text: str
    ids: tuple[int, ...]
    finish: str


def post(served: Served, path: str, body: Body) -> dict[str, Any]:
    """A whole answer's document."""
    got = httpx.post(served.url + path, json=body, timeout=300)
    assert got.status_code == 200, got.text
    return got.json()


def asked(served: Served, path: str, body: Body, **more: Any) -> list[dict[str, Any]]:
    """The choices of a whole answer, all that is said of them."""
    return post(served, path, body | {"return_token_ids": True} | more)["choices"]


def heard(served: Served, path: str, body: Body, **more: Any) -> list[Heard]:
    """The same, in short."""
    choices = asked(served, path, body, **more)
    return [Heard(_text(path, c), tuple(c["token_ids"]), c["finish_reason"]) for c in choices]


def streamed(
    served: Served, path: str, body: Body, **more: Any
) -> tuple[list[Heard], dict[str, Any]]:
    """The choices of a stream, and its last event."""
    body = body | {"return_token_ids": True, "stream": True} | more
    got = httpx.post(served.url + path, json=body, timeout=300)
    assert got.status_code == 200, got.text
    chunks = events(got.text)
    parts = [choice for chunk in chunks for choice in chunk["choices"]]
    made = []
    for index in sorted({part["index"] for part in parts}):
        own = [part for part in parts if part["index"] == index]
        text = "".join(part["delta"].get("content") or "" if path == CHAT else part["text"]
                       for part in own)  # fmt: skip
        ids = tuple(token for part in own for token in part.get("token_ids") or ())
        (finish,) = (part["finish_reason"] for part in own if part["finish_reason"])
        made.append(Heard(text, ids, finish))
    return made, chunks[-1]


def _text(path: str, choice: dict[str, Any]) -> str:
    return choice["message"]["content"] if path == CHAT else choice["text"]


def command(*arguments: str) -> list[str]:
    """The command line of a verb in a process of its own."""
    return [sys.executable, "-m", "hybridspec", *arguments, "--device", DEVICE]


@contextmanager
def process(*arguments: str) -> Iterator[subprocess.Popen[str]]:
    """`hybridspec serve` on a free port; its lines are read from `stdout`."""
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    environment = os.environ | {"PYTHONUNBUFFERED": "1"}
    made = command("serve", "--port", "0", *arguments)
    with subprocess.Popen(made, env=environment, **pipes) as running:
        try:
            yield running
        finally:
            running.kill()
