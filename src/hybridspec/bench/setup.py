"""From options to what will be run: checkpoints, systems, and the set-up they amount to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from hybridspec.bench import machine
from hybridspec.bench.options import SpeedOptions
from hybridspec.bench.prompts import Prompt, digest
from hybridspec.bench.records import Key
from hybridspec.checkpoint import fingerprint, hub_revision, read_drafter_config
from hybridspec.errors import RequestError
from hybridspec.placement import choose_device, choose_dtype
from hybridspec.profiles import find_profile
from hybridspec.sources import find_pair
from hybridspec.systems import parse_system
from hybridspec.text.tokenizer import Tokenizer


@dataclass(frozen=True, slots=True)
class Plan:
    """What will be run.

    Attributes:
        options: as asked.
        prompts: those selected.
        target, drafter: folders; the latter None without a drafter.
        block_size: the drafter's; 1 without one.
        chat: whether prompts go through the chat template.
        setup: all that the figures depend on; results of two set-ups are never mixed.
    """

    options: SpeedOptions
    prompts: tuple[Prompt, ...]
    target: Path
    drafter: Path | None
    block_size: int
    chat: bool
    setup: dict[str, Any]

    @property
    def schedule(self) -> list[Key]:
        """Every generation in its turn. The systems' order rotates from prompt to prompt.

        Repeats are outermost: a machine that slows down then widens the spread, not one repeat.
        """
        systems = self.options.systems
        keys = []
        for repeat in range(self.options.repeats):
            for index, prompt in enumerate(self.prompts):
                first = (index + repeat) % len(systems)
                keys += [Key(repeat, prompt.id, s) for s in systems[first:] + systems[:first]]
        return keys


def make_plan(options: SpeedOptions, prompts: Sequence[Prompt]) -> Plan:
    """Find the checkpoints, check the systems and write down the set-up. Loads no weights.

    Raises:
        CheckpointError: a checkpoint that cannot be used.
        RequestError: a system that the pair does not serve, or prompts it cannot take.
    """
    if options.threads is not None:
        torch.set_num_threads(options.threads)
    target, drafter = find_pair(
        options.model, options.draft, options.revision, options.draft_revision
    )
    block_size = read_drafter_config(drafter).block_size if drafter else None
    place = choose_device(options.device)
    dtype = choose_dtype(options.dtype, place)
    profile = find_profile(options.profile, target, drafter, place, dtype)
    for system in options.systems:
        parse_system(system, block_size, profile)
    chat = _chat(options, target)
    setup = {
        "systems": list(options.systems),
        "prompts": options.prompts.name,
        "prompts_sha256": digest(prompts),
        "max_tokens": options.max_tokens,
        "prompt_form": "chat" if chat else "raw",
        "thinking": options.thinking,
        "temperature": options.temperature,
        "seed": options.seed if options.temperature else None,
        "model": options.model or "embedded pair",
        "model_sha256": fingerprint(target),
        "model_revision": hub_revision(target),
        "draft": _draft_name(options),
        "draft_sha256": fingerprint(drafter) if drafter else None,
        "draft_revision": hub_revision(drafter) if drafter else None,
        "device": options.device,
        "dtype": options.dtype,
        "profile_sha256": None if profile is None else profile.digest,
        **machine.machine(place),
        **machine.code(),
    }
    return Plan(options, tuple(prompts), target, drafter, block_size or 1, chat, setup)


def _draft_name(options: SpeedOptions) -> str | None:
    return options.draft or ("embedded pair" if options.model is None else None)


def _chat(options: SpeedOptions, target: Path) -> bool:
    has_template = Tokenizer.from_dir(target).has_chat_template
    if options.chat and not has_template:
        raise RequestError(
            "--chat was given, but this checkpoint has no chat template; use --raw instead."
        )
    return has_template if options.chat is None else options.chat
