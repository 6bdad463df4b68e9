"""The pair that a verb asks for: found and looked at without loading it, then its prompts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from hybridspec.bench import machine
from hybridspec.bench.answering import AnswerOptions
from hybridspec.bench.prompts import Prompt, digest
from hybridspec.checkpoint import fingerprint, hub_revision, read_drafter_config
from hybridspec.engine import Engine
from hybridspec.errors import RequestError
from hybridspec.placement import choose_device, choose_dtype
from hybridspec.policy.profile import Profile
from hybridspec.profiles import find_profile
from hybridspec.sources import find_pair
from hybridspec.systems import System, parse_system
from hybridspec.text.tokenizer import Tokenizer


@dataclass(frozen=True, slots=True)
class Pair:
    """What is known of a pair before its weights are read.

    Attributes:
        block_size: the drafter's; None without one.
        profile: its calibration, where there is one for this device and dtype.
        device: where it will run.
        dtype: of its weights.
        chat: whether prompts go through the chat template.
        setup: all that its answers depend on, but for prompts and sampling.
    """

    block_size: int | None
    profile: Profile | None
    device: torch.device
    dtype: torch.dtype
    chat: bool
    setup: dict[str, Any]

    def system(self, name: str) -> System:
        """The system of that name. Raises RequestError as `parse_system`."""
        return parse_system(name, self.block_size, self.profile)


def look_at(options: AnswerOptions, prompts: Sequence[Prompt]) -> Pair:
    """Find the checkpoints and write down the set-up. Loads no weights.

    Raises:
        CheckpointError: a checkpoint that cannot be used.
        RequestError: an option out of range, a profile of another pair, or no chat template.
    """
    if options.threads is not None:
        torch.set_num_threads(options.threads)
    target, drafter = find_pair(
        options.model, options.draft, options.revision, options.draft_revision
    )
    place = choose_device(options.device)
    dtype = choose_dtype(options.dtype, place)
    profile = find_profile(options.profile, target, drafter, place, dtype)
    chat = _chat(options.chat, Tokenizer.from_dir(target))
    setup = {
        "prompts": options.prompts.name,
        "prompts_sha256": digest(prompts),
        "max_tokens": options.max_tokens,
        "prompt_form": "chat" if chat else "raw",
        "thinking": options.thinking,
        "seed": options.seed,
        "model": options.model or "embedded pair",
        "model_sha256": fingerprint(target),
        "model_revision": hub_revision(target),
        "draft": options.draft or ("embedded pair" if options.model is None else None),
        "draft_sha256": fingerprint(drafter) if drafter else None,
        "draft_revision": hub_revision(drafter) if drafter else None,
        "device": str(place),
        "dtype": str(dtype).removeprefix("torch."),
        "profile_sha256": None if profile is None else profile.digest,
        **machine.machine(place),
        **machine.code(),
    }
    block = read_drafter_config(drafter).block_size if drafter else None
    return Pair(block, profile, place, dtype, chat, setup)


def encode(
    engine: Engine, pair: Pair, options: AnswerOptions, prompts: Sequence[Prompt]
) -> tuple[dict[str, list[int]], dict[str, int]]:
    """Token ids of every prompt by prompt id, and the lengths of those that do not fit.

    A prompt fits if the context also holds the longest answer: a shorter one would not compare.

    Raises:
        RequestError: none fits.
    """
    fit: dict[str, list[int]] = {}
    long: dict[str, int] = {}
    for prompt in prompts:
        ids = engine.encode(prompt.text, chat=pair.chat, enable_thinking=options.thinking)
        if len(ids) + options.max_tokens > engine.max_context:
            long[prompt.id] = len(ids)
        else:
            fit[prompt.id] = ids
    if not fit:
        raise RequestError(
            f"All {len(long)} prompts are too long: the shortest has {min(long.values())} tokens, "
            f"and with {options.max_tokens} of an answer that passes the context of "
            f"{engine.max_context}. Lower --max-tokens or choose other prompts."
        )
    return fit, long


def skipped(long: Mapping[str, int], context: int) -> str:
    """The sentence about prompts that were left out; empty where none was."""
    if not long:
        return ""
    return (
        f"{len(long)} prompts are left out: with the longest answer they pass the context of "
        f"{context} tokens ({', '.join(list(long)[:3])}{' and others' if len(long) > 3 else ''})."
    )


def _chat(asked: bool | None, tokenizer: Tokenizer) -> bool:
    if asked and not tokenizer.has_chat_template:
        raise RequestError(
            "--chat was given, but this checkpoint has no chat template; use --raw instead."
        )
    return tokenizer.has_chat_template if asked is None else asked
