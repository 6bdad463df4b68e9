"""Reads the tokenizer files of a checkpoint: `tokenizer.json`, its configuration, its template."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import tokenizers

from hybridspec.errors import CheckpointError, said_by
from hybridspec.jsonfile import read_json

NAMED_SPECIALS = (
    "bos_token",
    "eos_token",
    "unk_token",
    "sep_token",
    "pad_token",
    "cls_token",
    "mask_token",
)


def read_backend(path: Path) -> tokenizers.Tokenizer:
    """The tokenizer in a `tokenizer.json`.

    Raises:
        CheckpointError: the file is missing or damaged.
    """
    if not path.is_file():
        raise CheckpointError(
            f"{path} is missing; expected the tokenizer beside the weights. "
            "Download the checkpoint again with its tokenizer files."
        )
    try:
        return tokenizers.Tokenizer.from_file(str(path))
    except BaseException as error:  # tokenizers raises plain Exception, and Rust's panics
        if not (isinstance(error, Exception) or is_panic(error)):
            raise
        raise CheckpointError(
            f"{path} cannot be read as a tokenizer: {said_by(error)}. Download it again."
        ) from error


def is_panic(error: BaseException) -> bool:
    """Whether a library in Rust gave up; the class is no Exception and cannot be imported."""
    return type(error).__name__ == "PanicException"


def read_config(path: Path) -> dict[str, Any]:
    """The object in a `tokenizer_config.json`; empty without the file.

    Raises:
        CheckpointError: the file holds no JSON object.
    """
    return read_json(path) if path.is_file() else {}


def special_tokens(config: Mapping[str, Any]) -> dict[str, Any]:
    """The special tokens a configuration names, as strings: by name, and a list of further ones."""
    named = {key: _content(config.get(key)) for key in NAMED_SPECIALS}
    tokens: dict[str, Any] = {key: name for key, name in named.items() if name}
    extra = config.get("additional_special_tokens", config.get("extra_special_tokens"))
    if isinstance(extra, list):
        tokens["additional_special_tokens"] = [name for name in map(_content, extra) if name]
    elif isinstance(extra, dict):
        tokens |= {key: name for key, value in extra.items() if (name := _content(value))}
    return tokens


def _content(token: Any) -> str | None:
    """A token in a configuration is a string, or an object that holds it under `content`."""
    value = token.get("content") if isinstance(token, dict) else token
    return value if isinstance(value, str) else None


def chat_template(directory: Path, config: Mapping[str, Any]) -> str | None:
    """The source of the chat template: of `chat_template.jinja`, else of the configuration.

    Raises:
        CheckpointError: the file cannot be read.
    """
    path = directory / "chat_template.jinja"
    if path.is_file():
        try:
            return path.read_text(encoding="utf-8")
        except (OSError, ValueError) as error:
            raise CheckpointError(
                f"{path} cannot be read as text: {said_by(error)}. Download it again."
            ) from error
    found = config.get("chat_template")
    if isinstance(found, list):  # several templates by name
        entries = [entry for entry in found if isinstance(entry, dict)]
        named = {entry.get("name"): entry.get("template") for entry in entries}
        found = named.get("default")
    return found if isinstance(found, str) else None
