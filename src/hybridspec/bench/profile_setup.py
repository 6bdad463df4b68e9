"""What a profile by verification length runs on: pair, machine, lengths and prompts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from hybridspec.bench import machine
from hybridspec.bench.profile_arguments import LENGTHS, ProfileOptions
from hybridspec.bench.prompts import Prompt, digest
from hybridspec.checkpoint import read_drafter_config
from hybridspec.engine import Engine
from hybridspec.errors import RequestError
from hybridspec.model.gdn import VERIFY
from hybridspec.placement import choose_device
from hybridspec.profiles import pair_identity
from hybridspec.sources import find_pair
from hybridspec.text.tokenizer import Tokenizer


def setup(
    options: ProfileOptions, prompts: Sequence[Prompt]
) -> tuple[dict[str, Any], tuple[int, ...]]:
    """What the figures depend on, and the lengths; all that can be refused before any weight is
    loaded is refused here.

    Raises:
        CheckpointError: a checkpoint that cannot be used. RequestError: another option that cannot.
    """
    if options.verifier not in VERIFY:
        raise RequestError(
            f"--verifier is {options.verifier!r}; expected one of {', '.join(VERIFY)}."
        )
    if options.threads is not None:
        torch.set_num_threads(options.threads)
    names = (options.model, options.draft, options.revision, options.draft_revision)
    target, drafter = find_pair(*names)
    if drafter is None:
        raise RequestError("A profile needs a drafter. Name one with --draft.")
    chosen = lengths(options.lengths, read_drafter_config(drafter).block_size)
    place = choose_device(options.device)
    facts = {
        "model": options.model or "embedded pair",
        "draft": options.draft or "embedded pair",
        "pair": pair_identity(target, drafter),
        "verifier": options.verifier,
        "prompts": options.prompts.name,
        "prompts_sha256": digest(prompts),
        "prompt_form": "chat" if Tokenizer.from_dir(target).has_chat_template else "raw",
        "max_tokens": options.max_tokens,
        **machine.machine(place),
        **machine.code(),
    }
    return facts, chosen


def lengths(asked: tuple[int, ...] | None, block: int) -> tuple[int, ...]:
    """Those asked for, or the usual ones that the drafter's block allows.

    Raises:
        RequestError: one that it does not allow.
    """
    if asked is None:
        return tuple(w for w in LENGTHS if w <= block)
    if max(asked) > block:
        raise RequestError(
            f"--lengths names {max(asked)}; the drafter's block allows at most {block} inputs."
        )
    return asked


def encoded(engine: Engine, prompts: Sequence[Prompt], longest: int) -> list[list[int]]:
    """Token ids of every prompt, through the chat template where there is one.

    Raises:
        RequestError: a prompt that leaves no room for the longest answer.
    """
    chat = engine.tokenizer is not None and engine.tokenizer.has_chat_template
    encoded = [engine.encode(p.text, chat=chat) for p in prompts]
    for prompt, ids in zip(prompts, encoded, strict=True):
        if len(ids) + longest > engine.max_context:
            raise RequestError(
                f"The prompt {prompt.id!r} has {len(ids)} tokens; with {longest} of an answer it "
                f"passes the context of {engine.max_context}. Lower --max-tokens or leave it out."
            )
    return encoded
