"""A server around the embedded pair: in this process for most tests, on a port for clients."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest
import torch
from fastapi.testclient import TestClient
from served import Served, serve, until
from spoken import Script

from hybridspec.engine import Engine
from hybridspec.serving import Settings, create_app


@pytest.fixture(scope="session")
def engine() -> Engine:
    torch.set_num_threads(1)
    return Engine.load(progress=False)


@pytest.fixture(scope="module")
def client(engine) -> Iterator[TestClient]:
    with TestClient(create_app(engine, Settings())) as client:
        until(lambda: client.get("/health").status_code == 200)
        yield client


@pytest.fixture
def make_client(engine) -> Iterator[Callable[..., TestClient]]:
    """`make_client(**settings)`: a server of its own, for settings that others do not have."""
    with ExitStack() as made:

        def make(**settings) -> TestClient:
            client = made.enter_context(TestClient(create_app(engine, Settings(**settings))))
            until(lambda: client.get("/health").status_code == 200)
            return client

        yield make


@pytest.fixture(scope="module")
def served(engine) -> Iterator[Served]:
    """A server on a port of the loopback."""
    with serve(create_app(engine, Settings(keep_alive=0.05))) as made:
        yield made


@pytest.fixture
def script(engine, monkeypatch) -> Script:
    """Says what the target says, and how many drafts are right."""
    return Script(engine, monkeypatch)
