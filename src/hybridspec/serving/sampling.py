"""A request's parameters as the engine's, with the checkpoint's settings where it has none."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hybridspec.checks import check_token_ids
from hybridspec.core import SamplingParams
from hybridspec.engine import Engine
from hybridspec.errors import HybridSpecError, OptionError
from hybridspec.serving.errors import refusal
from hybridspec.serving.protocol import Request
from hybridspec.serving.settings import Settings
from hybridspec.systems import parse_system

NAMES = (
    "stop",
    "stop_token_ids",
    "ignore_eos",
    "presence_penalty",
    "frequency_penalty",
    "repetition_penalty",
    "logit_bias",
)
DRAWN = ("temperature", "top_k", "top_p", "min_p")


def sampling(request: Request, engine: Engine, max_tokens: int, **more: Any) -> SamplingParams:
    """How the answers of a request are drawn.

    At temperature 0 the most likely token passes every filter: filters are checked and left out.

    Args:
        request: of either kind.
        engine: for the checkpoint's defaults.
        max_tokens: most tokens of an answer.
        more: further fields of `SamplingParams`.

    Raises:
        ApiError: a value out of range, by its name.
    """
    values = {name: getattr(request, name) for name in NAMES}
    values = {name: value for name, value in values.items() if value is not None}
    drawn = _drawn(request, engine)
    greedy = drawn["temperature"] == 0.0
    try:
        checked = {**drawn, "temperature": 1.0} if greedy else drawn
        params = SamplingParams(max_tokens=max_tokens, **checked, **values, **more)
        check_token_ids(params, engine.target.config.vocab_size)
    except OptionError as error:
        raise refusal(error) from error
    return replace(params, temperature=0.0, top_k=0, top_p=1.0, min_p=0.0) if greedy else params


def _drawn(request: Request, engine: Engine) -> dict[str, Any]:
    """Temperature and filters: the request's, else the checkpoint's where it samples."""
    own = engine.defaults
    values = {name: getattr(own, name) for name in DRAWN}
    if not own.do_sample:
        values["temperature"] = 0.0
    asked = {name: getattr(request, name) for name in DRAWN}
    values |= {name: value for name, value in asked.items() if value is not None}
    if values["top_k"] == -1:  # as vLLM has it for all
        values["top_k"] = 0
    if request.seed is not None:
        values["seed"] = request.seed % 2**64  # OpenAI's may be negative
    return values


def choice(params: SamplingParams, index: int) -> SamplingParams:
    """The parameters of choice `index` of several: a seed of its own."""
    return params if params.seed is None else replace(params, seed=(params.seed + index) % 2**64)


def decoding(request: Request, engine: Engine, settings: Settings) -> dict[str, Any]:
    """Further arguments of `Engine.stream`.

    Raises:
        ApiError: a decoding system that cannot be used.
    """
    system = settings.system if request.system is None else request.system
    if request.system is not None:
        block = None if engine.drafter is None else engine.drafter.config.block_size
        try:
            parse_system(request.system, block, engine.profile)
        except HybridSpecError as error:
            raise refusal(error, param="system") from error
    return {"system": system, "keep_drafts": bool(request.return_rounds)}
