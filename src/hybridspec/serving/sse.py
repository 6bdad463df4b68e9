"""Answers sent as they come, by server-sent events, and clients that go away meanwhile."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any, TypeVar

from fastapi import Request, Response
from starlette.types import Receive, Scope, Send

from hybridspec.serving.errors import refusal

T = TypeVar("T")
DONE = "[DONE]"
ALIVE = b": waiting\n\n"  # a comment, which clients skip
CLOSED = 499  # nobody reads it: the client has gone


class EventStream(Response):
    """Sends documents as events, comments while there are none, and `[DONE]` at the end.

    The source is closed when the client goes away, in whatever phase that is.
    """

    media_type = "text/event-stream"

    def __init__(
        self,
        source: AsyncIterator[dict[str, Any]],
        keep_alive: float,
        close: Callable[[], None] = lambda: None,
    ) -> None:
        """Send `source`.

        Args:
            source: the documents.
            keep_alive: seconds without an event before a comment.
            close: called at the end, even where the source was never begun.
        """
        super().__init__(headers={"Cache-Control": "no-cache", "X-Accel-Buffering": "no"})
        del self.headers["content-length"]
        self._source, self._keep_alive, self._close = source, keep_alive, close

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer; as ASGI has it."""
        start = {"type": "http.response.start", "status": 200, "headers": self.raw_headers}
        await send(start)
        sending = asyncio.ensure_future(self._send(send))
        watching = asyncio.ensure_future(gone(receive))
        try:
            await asyncio.wait({sending, watching}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._close()
            await _end(watching)
            await _end(sending)

    async def _send(self, send: Send) -> None:
        async def event(data: bytes, *, more: bool = True) -> None:
            await send({"type": "http.response.body", "body": data, "more_body": more})

        try:
            async for document in _with_pauses(self._source, self._keep_alive):
                await event(ALIVE if document is None else _event(document))
        except Exception as error:
            await event(_event(refusal(error).body))
        await event(f"data: {DONE}\n\n".encode(), more=False)


async def unless_gone(request: Request, work: Coroutine[Any, Any, T]) -> T | None:
    """What `work` gives; None, and its end, when the client goes away first."""
    working = asyncio.ensure_future(work)
    watching = asyncio.ensure_future(gone(request.receive))
    try:
        await asyncio.wait({working, watching}, return_when=asyncio.FIRST_COMPLETED)
        return await working if working.done() else None
    finally:
        await _end(watching)
        await _end(working)


async def gone(receive: Receive) -> None:
    """Return when the client has gone away. The request's body must have been read."""
    while (await receive())["type"] != "http.disconnect":
        pass


async def _end(task: asyncio.Future[Any]) -> None:
    """Cancel a task and see it end. What it raised is of no use any more."""
    if not task.done():
        task.cancel()
    await asyncio.wait({task})
    if not task.cancelled():
        task.exception()


async def _with_pauses(
    source: AsyncIterator[dict[str, Any]], seconds: float
) -> AsyncIterator[dict[str, Any] | None]:
    """The documents, and None for every so many seconds without one."""
    upcoming: asyncio.Future[dict[str, Any]] | None = None
    try:
        while True:
            if upcoming is None:
                upcoming = asyncio.ensure_future(anext(source))
            done, _ = await asyncio.wait({upcoming}, timeout=seconds)
            if not done:
                yield None
                continue
            finished, upcoming = upcoming, None
            try:
                document = finished.result()
            except StopAsyncIteration:
                return
            yield document
    finally:
        if upcoming is not None:
            await _end(upcoming)
        await source.aclose()  # type: ignore[attr-defined]


def as_json(document: dict[str, Any]) -> bytes:
    """A document in UTF-8; in ASCII where what it quotes is no Unicode."""
    try:
        return json.dumps(document, ensure_ascii=False, allow_nan=False).encode()
    except UnicodeEncodeError:
        return json.dumps(document, allow_nan=False).encode()


def _event(document: dict[str, Any]) -> bytes:
    return b"data: " + as_json(document) + b"\n\n"
