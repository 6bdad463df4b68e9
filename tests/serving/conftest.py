"""A server around the embedded pair: in this process for most tests, on a port for clients."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack

import pytest
import torch
from casebook import Book
from every_system import Stage
from fastapi.testclient import TestClient

from hybridspec.engine import Engine
from hybridspec.serving import Settings, create_app
from scripted_text import RIGHT, ScriptedDrafter, ScriptedTarget, say
from served import Served, serve, until


@pytest.fixture(scope="session")
def engine() -> Engine:
    torch.set_num_threads(1)
    return Engine.load(progress=False)


@pytest.fixture(scope="module")
def client(engine) -> Iterator[TestClient]:
    with TestClient(create_app(engine, Settings())) as client:
        until(lambda: client.app.state.worker.state == "ok")
        yield client


@pytest.fixture
def make_client(engine) -> Iterator[Callable[..., TestClient]]:
    """`make_client(**settings)`: a server of its own, for settings that others do not have."""
    with ExitStack() as made:

        def make(**settings) -> TestClient:
            client = made.enter_context(TestClient(create_app(engine, Settings(**settings))))
            until(lambda: client.app.state.worker.state == "ok")
            return client

        yield make


@pytest.fixture(scope="module")
def served(engine) -> Iterator[Served]:
    """A server on a port of the loopback."""
    with serve(create_app(engine, Settings(keep_alive=0.05))) as made:
        yield made


class Script:
    """What the target says to any prompt from now on, and how many drafts are right in each round.
    Returns the tokens, the end of the answer not among them."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def __call__(self, text: str | Sequence[int], plan: Sequence[int] = (RIGHT,)) -> list[int]:
        return say(self._engine, text, plan)


@pytest.fixture
def script(engine) -> Iterator[Script]:
    """`script(text or ids, plan)`."""
    target, drafter = engine.target.__class__, engine.drafter.__class__
    engine.target.__class__, engine.drafter.__class__ = ScriptedTarget, ScriptedDrafter
    yield Script(engine)
    engine.target.__class__, engine.drafter.__class__ = target, drafter


@pytest.fixture(scope="session")
def _book() -> Iterator[Book]:
    torch.set_num_threads(1)
    with Stage() as stage:
        yield Book(stage)


@pytest.fixture
def book(_book, monkeypatch) -> Book:
    """Cases on every system; every committed state is checked."""
    monkeypatch.setenv("HYBRIDSPEC_CHECK", "1")
    return _book
