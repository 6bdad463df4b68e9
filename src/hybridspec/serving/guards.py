"""What a request must pass before it is read: a body of bounded size, the key, a known host."""

from __future__ import annotations

import secrets
from collections.abc import Callable

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from hybridspec.serving.errors import ApiError, error_response
from hybridspec.serving.settings import Settings

OPEN = ("/", "/health", "/metrics", "/version")  # without a key; none shows what was asked
LOOPBACK = ("localhost", "127.0.0.1", "[::1]")  # names under which a machine calls itself


class Guard:
    """Asks `check` about each request and refuses what it refuses."""

    def __init__(self, app: ASGIApp, check: Callable[[str, Headers], None]) -> None:
        """check: takes the path and the headers; raises ApiError."""
        self._app, self._check = app, check

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """As ASGI has it."""
        if scope["type"] == "http":
            try:
                self._check(scope["path"], Headers(scope=scope))
            except ApiError as error:
                await error_response(error)(scope, receive, send)
                return
        await self._app(scope, receive, send)


def key_check(key: str) -> Callable[[str, Headers], None]:
    """Refuses who does not show the key, except on `OPEN`. How long it takes tells nothing."""
    expected = key.encode()

    def check(path: str, headers: Headers) -> None:
        shown = headers.get("authorization", "")
        scheme, _, given = shown.partition(" ")
        known = secrets.compare_digest(given.strip().encode("latin-1"), expected)
        if path not in OPEN and not (known and scheme.lower() == "bearer"):
            raise ApiError(
                401,
                "The API key is missing or wrong; expected the header Authorization: Bearer KEY.",
                code="invalid_api_key",
                headers={"WWW-Authenticate": "Bearer"},
            )

    return check


def host_check(settings: Settings) -> Callable[[str, Headers], None]:
    """Refuses other names for this server, under which a web page could pass for part of it."""
    allowed = settings.allowed_hosts

    def check(path: str, headers: Headers) -> None:
        host = headers.get("host", "")
        name = host.rpartition(":")[0] if host.rpartition(":")[2].isdigit() else host
        if name.lower() not in allowed:
            raise ApiError(
                403,
                "This server does not answer to the name in the Host header. The option "
                "--allowed-host adds a name.",
                code="unknown_host",
            )

    return check


class BodyLimit:
    """Reads a body whole before anything else does, and refuses one that is too long."""

    def __init__(self, app: ASGIApp, most: int) -> None:
        """most: bytes."""
        self._app, self._most = app, most

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """As ASGI has it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        body = await self._read(Headers(scope=scope), receive)
        if body is None:
            said = f"The body has more than {self._most} bytes, which is the most."
            error = ApiError(413, said, code="body_too_large", headers={"Connection": "close"})
            await error_response(error)(scope, receive, send)
            return
        await self._app(scope, _again(body, receive), send)

    async def _read(self, headers: Headers, receive: Receive) -> list[Message] | None:
        """The messages of the body; None where it is too long."""
        told = headers.get("content-length", "0")
        if told.isdigit() and int(told) > self._most:
            return None
        messages, size, more = [], 0, True
        while more:
            message = await receive()
            messages.append(message)
            size += len(message.get("body", b""))
            more = message["type"] == "http.request" and message.get("more_body", False)
            if size > self._most:
                return None
        return messages


def _again(messages: list[Message], receive: Receive) -> Receive:
    """Gives the messages once more, and then what comes."""
    left = iter(messages)

    async def replay() -> Message:
        message = next(left, None)
        return await receive() if message is None else message

    return replay
