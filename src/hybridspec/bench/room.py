"""Prompts as token ids, and those that leave no room in the context for their answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from hybridspec.bench.options import SpeedOptions
from hybridspec.bench.prompts import Prompt
from hybridspec.bench.turns import messages
from hybridspec.checkpoint import read_target_config
from hybridspec.errors import RequestError
from hybridspec.placement import choose_context
from hybridspec.text.prompt import encode_prompt
from hybridspec.text.tokenizer import Tokenizer


@dataclass(frozen=True, slots=True)
class Skipped:
    """A prompt that leaves no room for its longest answers; `tokens` without any answer."""

    prompt: str
    category: str
    tokens: int


@dataclass(frozen=True, slots=True)
class Fitted:
    """Prompts that fit, with the token ids of their first turns by id, and those that do not.

    `context` is the most tokens of prompt and answers, as `Engine.load` chooses it.
    """

    prompts: tuple[Prompt, ...]
    encoded: dict[str, list[int]]
    skipped: tuple[Skipped, ...]
    context: int


def fit(options: SpeedOptions, prompts: Sequence[Prompt], target: Path, chat: bool) -> Fitted:
    """Encode prompts by the files of a checkpoint; loads no weights.

    Raises:
        RequestError: no prompt fits.
    """
    config, tokenizer = read_target_config(target), Tokenizer.from_dir(target)
    context = choose_context(None, config.max_position_embeddings)

    def ids(prompt: Prompt, turns: int) -> list[int]:
        asked = messages(prompt, [""] * (turns - 1)) if turns > 1 else prompt.text
        return encode_prompt(
            *(asked, tokenizer, config.vocab_size), chat=chat, enable_thinking=options.thinking
        )

    kept, encoded, skipped = [], {}, []
    for prompt in prompts:
        turns = len(prompt.turns) if options.turns == "all" else 1
        tokens = len(ids(prompt, turns))
        if tokens + turns * (options.max_tokens or 0) > context:
            skipped.append(Skipped(prompt.id, prompt.category, tokens))
        else:
            kept.append(prompt)
            encoded[prompt.id] = ids(prompt, 1)
    if not kept:
        raise RequestError(
            f"No prompt fits the context of {context} tokens with answers of "
            f"{options.max_tokens}: the first has {skipped[0].tokens}. Lower --max-tokens or give "
            "shorter prompts."
        )
    return Fitted(tuple(kept), encoded, tuple(skipped), context)
