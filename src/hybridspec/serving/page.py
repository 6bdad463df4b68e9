"""A chat page at `/`: one file without anything from elsewhere, which asks the server's own API."""

from __future__ import annotations

import base64
import hashlib
import re
from importlib.resources import files

from fastapi import APIRouter, Response

# Only the page's own script and style run, by their hashes; it talks to this server alone, takes
# its texts for nothing but text, and no other page can put it into a frame.
POLICY = (
    "default-src 'none'; script-src {script}; style-src {style}; img-src data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'"
)


def page_route() -> APIRouter:
    """GET `/`. It shows nothing of what was asked, so it needs no key; what it asks for does."""
    router = APIRouter()
    document = files(__package__).joinpath("page", "index.html").read_bytes()
    headers = headers_of(document.decode())

    @router.api_route("/", methods=["GET", "HEAD"], include_in_schema=False)
    async def page() -> Response:
        return Response(document, media_type="text/html", headers=headers)

    return router


def headers_of(document: str) -> dict[str, str]:
    """What a browser may do with the page.

    Args:
        document: the page, whose scripts and styles stand in it.
    """
    policy = POLICY.format(script=_hash(document, "script"), style=_hash(document, "style"))
    return {
        "Content-Security-Policy": policy,
        "Cache-Control": "no-cache",
        "Cross-Origin-Opener-Policy": "same-origin",
        "Cross-Origin-Resource-Policy": "same-origin",
        "Referrer-Policy": "no-referrer",
        "X-Content-Type-Options": "nosniff",
    }


def _hash(document: str, tag: str) -> str:
    """The hash of the one element of a kind, as a policy names it."""
    (text,) = re.findall(rf"<{tag}\b[^>]*>(.*?)</{tag}>", document, re.DOTALL)
    digest = hashlib.sha256(text.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"
