"""What the command line says an answer must look like: logit biases, a JSON schema."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hybridspec.errors import RequestError, said_by

if TYPE_CHECKING:
    from hybridspec.engine import Engine
    from hybridspec.text.grammar import Grammar

THOUGHT_ENDS = "</think>"


@dataclass(frozen=True, slots=True)
class Shape:
    """JSON by a schema; None: any JSON object."""

    schema: dict[str, Any] | None

    def grammar(self, engine: Engine, *, thinking: bool) -> Grammar:
        """Its grammar, which begins after the thought where the model thinks first."""
        tokenizer = engine.tokenizer
        known = tokenizer is not None and tokenizer.token_id(THOUGHT_ENDS) is not None
        return engine.grammar(self.schema, after=THOUGHT_ENDS if thinking and known else None)


def read_bias(pairs: Iterable[str]) -> tuple[tuple[int, float], ...]:
    """Token ids and what is added to their logits, each given as ID:VALUE.

    Raises:
        RequestError: the first of another form.
    """
    read = []
    for pair in pairs:
        token, _, value = pair.partition(":")
        try:
            read.append((int(token), float(value)))
        except ValueError:
            raise RequestError(
                f"--logit-bias is {pair!r}; expected a token id and a number, such as 42:-5."
            ) from None
    return tuple(read)


def read_shape(json_mode: bool, schema: Path | None) -> Shape | None:
    """What was asked for; None: any text.

    Raises:
        RequestError: both at once, or a file that cannot be read or holds no JSON object.
    """
    if schema is None:
        return Shape(None) if json_mode else None
    if json_mode:
        raise RequestError("--json-mode asks for any object and --json-schema for one; give one.")
    try:
        read = json.loads(schema.read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        why = error.strerror if isinstance(error, OSError) else said_by(error)
        raise RequestError(
            f"--json-schema {schema} cannot be read: {why}. Expected a file with a JSON schema."
        ) from None
    if not isinstance(read, dict):
        raise RequestError(f"--json-schema {schema} holds no JSON object; expected a JSON schema.")
    return Shape(read)
