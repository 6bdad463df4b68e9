"""/tokenize, /detokenize, /tokenizer_info: text to ids and back, and what clients need for it."""

from __future__ import annotations

from typing import Any

from hybridspec.engine import Engine
from hybridspec.errors import HybridSpecError
from hybridspec.serving.errors import ApiError, refusal
from hybridspec.serving.prompts import Conversation, tokenizer_of
from hybridspec.serving.protocol import DetokenizeRequest, TokenizeRequest
from hybridspec.serving.settings import Settings
from hybridspec.serving.tokens import token_text


def tokenize(engine: Engine, settings: Settings, request: TokenizeRequest) -> dict[str, Any]:
    """The ids of a prompt or a conversation as a chat would have them, and the context.

    Raises:
        ApiError: neither or both are given, or it cannot be encoded.
    """
    if (request.prompt is None) == (request.messages is None):
        raise ApiError(400, "Expected either prompt or messages.", param="prompt")
    tokenizer = tokenizer_of(engine)
    text, special = request.prompt or "", request.add_special_tokens is not False
    if request.messages is not None:
        generation = request.add_generation_prompt is not False
        variables = {"enable_thinking": settings.thinking, **(request.chat_template_kwargs or {})}
        talk = Conversation(request.messages, request.tools or (), variables, generation)
        text, special = talk.text(tokenizer), bool(request.add_special_tokens)
    try:
        ids = tokenizer.encode(text, add_special_tokens=special)
    except HybridSpecError as error:
        raise refusal(error, param="prompt") from error
    document = {"count": len(ids), "max_model_len": engine.max_context, "tokens": ids}
    if request.return_token_strs:
        document["token_strs"] = [token_text(tokenizer, token) for token in ids]
    return document


def detokenize(engine: Engine, request: DetokenizeRequest) -> dict[str, Any]:
    """The text of ids, special tokens by their names.

    Raises:
        ApiError: an id out of range.
    """
    most = engine.target.config.vocab_size
    wrong = next((i for i in request.tokens if not 0 <= i < most), None)
    if wrong is not None:
        said = f"tokens holds {wrong}; expected ids from 0 to {most - 1}."
        raise ApiError(400, said, param="tokens", code="invalid_value")
    return {"prompt": tokenizer_of(engine).decode(request.tokens, skip_special_tokens=False)}


def tokenizer_info(engine: Engine) -> dict[str, Any]:
    """Special tokens by their names and the chat template, for clients that render by themselves.

    Raises:
        ApiError: there is no tokenizer.
    """
    tokenizer = tokenizer_of(engine)
    missing = dict.fromkeys(("bos_token", "eos_token", "pad_token"))
    return {
        **missing,
        **tokenizer.specials,
        "chat_template": tokenizer.template,
        "model_max_length": engine.max_context,
    }
