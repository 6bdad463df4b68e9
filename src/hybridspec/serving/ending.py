"""How a server ends: what is under way may take a while, and what is cut off is told so."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import socket
import time
from collections.abc import Callable
from types import FrameType
from typing import Any

import uvicorn
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from hybridspec.serving.errors import error_response, shutting_down

logger = logging.getLogger("hybridspec.serving")
GRACE = 5  # seconds from the cut to the end of tasks; a round or a part of a prompt ends within
TOLD = 0.1  # seconds for what cancelled tasks still have to say


class Server(uvicorn.Server):
    """Cuts answers off by the engine, so that each is told, before tasks are cancelled.

    That is when the drain is over, or at once when a second signal comes, whichever it is.
    """

    def __init__(self, config: uvicorn.Config, drain: int, stop: Callable[[], None]) -> None:
        """Serve as `config` says.

        Args:
            config: of uvicorn. It sets no limit to the end.
            drain: seconds that what is under way may take.
            stop: ends every answer; called from another thread.
        """
        super().__init__(config)
        self._drain, self._stop = drain, stop
        self._loop: asyncio.AbstractEventLoop | None = None
        self._hurry = asyncio.Event()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """A signal came: end, and the second time do not wait for what is under way."""
        if not self.should_exit:
            super().handle_exit(sig, frame)
        elif self._loop is not None:
            self._loop.call_soon_threadsafe(self._hurry.set)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin; as uvicorn has it."""
        self._loop = asyncio.get_running_loop()
        self._loop.set_exception_handler(Told())
        await super().startup(sockets)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End; as uvicorn has it. Who waits at a terminal is told for what."""
        if (busy := len(self.server_state.tasks)) and self._drain:
            logger.warning(
                "Ending. Requests under way: %d, given up to %d s; a second signal cuts them off.",
                busy,
                self._drain,
            )
        cutting = asyncio.create_task(self._cut())
        try:
            await super().shutdown(sockets)
        finally:
            cutting.cancel()
        if self.force_exit:  # which lets uvicorn leave this out
            await self.lifespan.shutdown()

    async def _cut(self) -> None:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._hurry.wait(), self._drain)
        await asyncio.to_thread(self._stop)
        await asyncio.sleep(GRACE)
        for task in self.server_state.tasks:
            task.cancel()
        await asyncio.sleep(TOLD)
        for connection in list(self.server_state.connections):  # whose clients do not read
            connection.transport.abort()
        self.force_exit = True


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
