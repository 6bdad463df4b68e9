"""Every parameter of a request is honoured, ignored knowingly, or refused: none is dropped.

Honoured ones are the fields of `protocol.py`. What changes no answer is ignored. What this server
cannot do is taken only at the value that asks for nothing. All else is unknown, and refused.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from hybridspec.checks import brief
from hybridspec.serving.errors import ApiError

IGNORED = {
    "metadata": "kept by OpenAI with stored answers",
    "store": "nothing is stored",
    "service_tier": "there is one",
    "prompt_cache_key": "prefixes are found by their tokens",
    "prompt_cache_retention": "likewise",
    "prompt_cache_options": "likewise",
    "cache_salt": "likewise",
    "cache_prompt": "likewise",
    "safety_identifier": "of OpenAI's accounts",
    "prediction": "a hint for speed; drafts come from the drafter",
    "verbosity": "no template reads it",
    "priority": "clients take turns",
    "request_id": "answers have ids of their own",
}
"""Parameters without effect on an answer, and why."""

NEUTRAL: dict[str, tuple[Any, ...]] = {
    "audio": (),
    "modalities": (["text"],),
    "moderation": (),
    "functions": ([],),
    "function_call": ("none",),
    "web_search_options": (),
    "best_of": (1,),
    "suffix": ("",),
    "use_beam_search": (False,),
    "length_penalty": (1,),
    "min_tokens": (0,),
    "bad_words": ([],),
    "allowed_token_ids": ([],),
    "prompt_logprobs": (0,),
    "truncate_prompt_tokens": (),
    "include_stop_str_in_output": (False,),
    "skip_special_tokens": (True,),
    "spaces_between_special_tokens": (True,),
    "add_generation_prompt": (True,),
    "continue_final_message": (False,),
    "echo": (False,),
    "structured_outputs": (),
    "guided_json": (),
    "guided_regex": (),
    "guided_choice": (),
    "guided_grammar": (),
    "mm_processor_kwargs": (),
    "logits_processors": ([],),
}
"""Parameters that are not served, and the values beside null at which they ask for nothing."""

INSTEAD = {
    "functions": "Use tools.",
    "function_call": "Use tool_choice.",
    "best_of": "Use n.",
    "guided_json": "Use response_format.",
    "structured_outputs": "Use response_format.",
}


def served(body: Any, honoured: Collection[str]) -> Any:
    """The body with its honoured parameters only.

    Args:
        body: as it came; what is no object is left to the caller.
        honoured: names of the request's own fields.

    Raises:
        ApiError: a parameter that is unknown or not served.
    """
    if not isinstance(body, Mapping):
        return body
    kept = {}
    for name, value in body.items():
        if name in honoured:
            kept[name] = value
        elif name in NEUTRAL:
            _check_neutral(name, value)
        elif name not in IGNORED:
            raise ApiError(
                400,
                f"Unknown parameter: {brief(name)}. docs/server.md lists what is known.",
                param=name,
                code="unknown_parameter",
            )
    return kept


def _check_neutral(name: str, value: Any) -> None:
    allowed = NEUTRAL[name]
    if value is None or any(type(value) is type(v) and value == v for v in allowed):
        return
    if isinstance(value, float) and value in allowed:
        return
    instead = f" {INSTEAD[name]}" if name in INSTEAD else " Leave it out."
    raise ApiError(
        400,
        f"{name} is {brief(value)}, which this server does not do.{instead}",
        param=name,
        code="unsupported_parameter",
    )
