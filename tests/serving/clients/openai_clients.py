"""Connections of the package `openai` to a server of a test."""

from __future__ import annotations

from typing import Any

import openai
from test_chat_route import GARDEN

from served import Served

HI: dict[str, Any] = {"model": "embedded", "messages": GARDEN}
LONG: dict[str, Any] = {**HI, "max_tokens": 20000}
RAW_ENDLESS: dict[str, Any] = {**LONG, "ignore_eos": True}
ENDLESS: dict[str, Any] = {**LONG, "extra_body": {"ignore_eos": True}}


def connect(served: Served, *, api_key: str = "any", **options: Any) -> openai.OpenAI:
    """A client; it asks once unless told otherwise."""
    return openai.OpenAI(**_settings(served, api_key, options))


def connect_async(served: Served, *, api_key: str = "any", **options: Any) -> openai.AsyncOpenAI:
    return openai.AsyncOpenAI(**_settings(served, api_key, options))


def _settings(served: Served, api_key: str, options: dict[str, Any]) -> dict[str, Any]:
    return {"base_url": f"{served.url}/v1", "api_key": api_key, "max_retries": 0} | options
