"""What a checkpoint says about generating: the ids that end a text, and its default sampling."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from hybridspec.checkpoint.fields import Fields
from hybridspec.errors import CheckpointError
from hybridspec.jsonfile import read_json


@dataclass(frozen=True, slots=True)
class GenerationConfig:
    """Defaults of one checkpoint.

    Attributes:
        eos_token_ids: ids any of which ends a text, in the file's order; may be empty.
        do_sample: whether the checkpoint's authors sample by default.
        temperature, top_k, top_p, min_p: their sampling settings, neutral where they name none.
    """

    eos_token_ids: tuple[int, ...]
    do_sample: bool = False
    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0


def read_generation_config(folder: Path) -> GenerationConfig:
    """Reads `generation_config.json`.

    When it names no end id, the text ends at the tokenizer's end token and at the `eos_token_id`
    of `config.json`: in this family the two differ, and either is an end.

    Raises:
        CheckpointError: a file that cannot be read or a value of the wrong type.
    """
    fields = _open(folder / "generation_config.json")
    if "eos_token_id" in fields:
        ends = _ids(fields)
    else:
        ends = (*_tokenizer_end(folder), *_config_ends(folder))
    return GenerationConfig(
        eos_token_ids=tuple(dict.fromkeys(ends)),
        do_sample=bool(fields.flag("do_sample")),
        temperature=fields.number("temperature", 1.0, above_zero=False),
        top_k=fields.integer("top_k", 0, least=0),
        top_p=fields.number("top_p", 1.0),
        min_p=fields.number("min_p", 0.0, above_zero=False),
    )


def _open(path: Path) -> Fields:
    return Fields(read_json(path) if path.is_file() else {}, str(path))


def _ids(fields: Fields) -> tuple[int, ...]:
    """`eos_token_id`, one integer or a list; empty when absent."""
    value = fields.get("eos_token_id")
    if isinstance(value, list):
        return fields.integers("eos_token_id")
    return (fields.integer("eos_token_id", least=0),) if value is not None else ()


def _config_ends(folder: Path) -> tuple[int, ...]:
    top = _open(folder / "config.json")
    return (*_ids(top), *_ids(top.section("text_config")))


def _tokenizer_end(folder: Path) -> tuple[int, ...]:
    """The id of `eos_token` in tokenizer_config.json, looked up among the added tokens."""
    settings = _open(folder / "tokenizer_config.json")
    token = settings.get("eos_token")
    if isinstance(token, dict):  # the serialised AddedToken form
        token = token.get("content")
    if token is None:
        return ()
    tokenizer = folder / "tokenizer.json"
    for entry in _added_tokens(tokenizer):
        if isinstance(entry, dict) and entry.get("content") == token:
            return (Fields(entry, f"{tokenizer}, added_tokens").integer("id", least=0),)
    raise CheckpointError(
        f"{settings.where}: eos_token {token!r} is not among the added tokens of {tokenizer}; "
        "expected an end token with an id."
    )


def _added_tokens(tokenizer: Path) -> list[object]:
    added = _open(tokenizer).get("added_tokens")
    return added if isinstance(added, list) else []
