"""Runs the application on a socket of its own until it is told to stop."""

from __future__ import annotations

import contextlib
import errno
import signal
import socket
from collections.abc import Callable, Iterator

import uvicorn
from fastapi import FastAPI

from hybridspec.errors import HybridSpecError
from hybridspec.serving.ending import Cancelled, Server

BACKLOG = 128  # asyncio tries as often at once, even where no file can be opened any more


def listen(host: str, port: int) -> socket.socket:
    """A socket that is bound, so that what is wrong with the address shows before a model loads.

    Args:
        host: a name or an address of this machine.
        port: 0 takes a free one.

    Raises:
        HybridSpecError: it cannot be had.
    """
    try:
        family, kind, number, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        made = socket.socket(family, kind, number)
    except (OSError, OverflowError, UnicodeError) as error:
        raise HybridSpecError(
            f"{host!r} is no address of this machine ({_said(error)}). Try --host 127.0.0.1."
        ) from error
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind(address)
        made.listen(BACKLOG)  # at once, or a second server could take the port before this serves
    except OSError as error:
        made.close()
        taken = error.errno == errno.EADDRINUSE
        advice = "another server has it. Choose one with --port, or any free one with --port 0"
        said = advice if taken else f"{_said(error)}. Choose another --host or --port"
        raise HybridSpecError(f"Port {port} of {host} cannot be used: {said}.") from error
    return made


def address_of(made: socket.socket) -> str:
    """Its URL."""
    host, port = made.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def run(
    app: FastAPI,
    made: socket.socket,
    *,
    drain: int,
    loaded: Callable[[], None],
    access_log: bool = False,
) -> None:
    """Serve until SIGTERM or Ctrl-C; then take nothing new and let what is under way end.

    Args:
        app: of `create_app`.
        made: of `listen`.
        drain: seconds that what is under way may take; a second signal does not wait.
        loaded: called when requests are served, from another thread.
        access_log: write a line a request, of its path and status, to standard error.

    Raises:
        BaseException: why the model could not be loaded.
    """
    worker = app.state.worker
    config = uvicorn.Config(
        Cancelled(app),
        log_level="info" if access_log else "warning",
        access_log=access_log,
        server_header=False,
        proxy_headers=False,
        ws="none",
        lifespan="on",
        backlog=BACKLOG,
    )
    server = Server(config, drain, worker.stop)

    def tell(failure: BaseException | None) -> None:
        if failure is None:
            loaded()
        else:
            server.should_exit = True

    worker.on_loaded = tell
    with _quiet_sigterm():
        server.run(sockets=[made])
    if worker.failure is not None:
        raise worker.failure


@contextlib.contextmanager
def _quiet_sigterm() -> Iterator[None]:
    """SIGTERM, which is raised once more when all has drained, ends nothing then."""
    before = signal.signal(signal.SIGTERM, lambda *_: None)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _said(error: BaseException) -> str:
    said = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return said[:1].lower() + said[1:]
