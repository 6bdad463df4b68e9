"""How a server ends: what is under way may take a while, and what is cut off is told so."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import socket
import time
from collections.abc import Callable
from typing import Any

import uvicorn
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from hybridspec.serving.errors import error_response, shutting_down

logger = logging.getLogger("hybridspec.serving")
GRACE = 5  # seconds from the cut to the end of tasks; a round or a part of a prompt ends within


class Server(uvicorn.Server):
    """Cuts answers off by the engine, so that each is told, before tasks are cancelled."""

    def __init__(self, config: uvicorn.Config, drain: int, stop: Callable[[], None]) -> None:
        """Serve as `config` says.

        Args:
            config: of uvicorn. Its limit to the end is set here.
            drain: seconds that what is under way may take.
            stop: ends every answer; called from another thread.
        """
        config.timeout_graceful_shutdown = drain + GRACE
        super().__init__(config)
        self._drain, self._stop = drain, stop

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin; as uvicorn has it."""
        asyncio.get_running_loop().set_exception_handler(Told())
        await super().startup(sockets)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End; as uvicorn has it."""
        cutting = asyncio.create_task(self._cut())
        try:
            await super().shutdown(sockets)
        finally:
            cutting.cancel()

    async def _cut(self) -> None:
        await asyncio.sleep(self._drain)
        await asyncio.to_thread(self._stop)


class Told:
    """Says in a line a second at most that connections cannot be taken; the rest as ever."""

    def __init__(self) -> None:
        """Nothing has been said yet."""
        self._last = float("-inf")

    def __call__(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """As asyncio has it."""
        error = context.get("exception")
        if not isinstance(error, OSError) or error.errno not in (errno.EMFILE, errno.ENFILE):
            loop.default_exception_handler(context)
        elif time.monotonic() - self._last >= 1:
            self._last = time.monotonic()
            logger.warning("No connection can be taken: too many files are open (ulimit -n).")


class Cancelled:
    """Answers requests that are cancelled, as those whose body does not come to its end."""

    def __init__(self, app: ASGIApp) -> None:
        """app: what is asked, and may be cancelled."""
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """As ASGI has it."""
        begun = False

        async def watched(message: Message) -> None:
            nonlocal begun
            begun = True
            await send(message)

        try:
            await self._app(scope, receive, watched)
        except asyncio.CancelledError:
            if scope["type"] != "http":
                raise
            with contextlib.suppress(OSError):
                if begun:  # nobody reads it, or it would have come to its end
                    await send({"type": "http.response.body", "body": b"", "more_body": False})
                else:
                    await error_response(shutting_down())(scope, receive, send)
