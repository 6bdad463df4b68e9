"""From options to what will be run: checkpoints, systems, and the set-up they amount to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from hybridspec.bench import machine
from hybridspec.bench.options import SpeedOptions
from hybridspec.bench.prompts import Prompt, digest
from hybridspec.bench.records import FORMAT, Key
from hybridspec.bench.room import Skipped, fit
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
        options: as asked, what the device decides filled in.
        prompts: those selected that fit the context.
        target, drafter: folders; the latter None without a drafter.
        block_size: the drafter's; 1 without one.
        chat: whether prompts go through the chat template.
        setup: all that the figures depend on; results of two set-ups are never mixed.
        encoded: token ids of each prompt's first turn, by its id.
        skipped: the selected prompts that do not fit, in their order.
        context: most tokens of prompt and answers.
    """

    options: SpeedOptions
    prompts: tuple[Prompt, ...]
    target: Path
    drafter: Path | None
    block_size: int
    chat: bool
    setup: dict[str, Any]
    encoded: dict[str, list[int]] = field(default_factory=dict)
    skipped: tuple[Skipped, ...] = ()
    context: int = 0

    @property
    def schedule(self) -> list[Key]:
        """Every generation in its turn. The systems' order rotates from prompt to prompt.

        Repeats are outermost: a machine that slows down then widens the spread, not one repeat.
        """
        return [key for repeat in range(self.repeats) for key in self.of_repeat(repeat)]

    def of_repeat(self, repeat: int) -> list[Key]:
        """The generations of one repeat; a conversation's turns follow each other."""
        systems, keys = self.options.systems, []
        for index, prompt in enumerate(self.prompts):
            first = (index + repeat) % len(systems)
            turns = len(prompt.turns) if self.options.turns == "all" else 1
            for system in systems[first:] + systems[:first]:
                keys += [Key(repeat, prompt.id, system, turn) for turn in range(turns)]
        return keys

    @property
    def repeats(self) -> int:
        """How often everything runs."""
        return self.options.repeats or 1

    @property
    def max_tokens(self) -> int:
        """Most tokens of an answer."""
        assert self.options.max_tokens is not None
        return self.options.max_tokens


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
    options = options.settled(place.type)
    dtype = choose_dtype(options.dtype, place)
    profile = find_profile(options.profile, target, drafter, place, dtype)
    for system in options.systems:
        parse_system(system, block_size, profile)
    chat = _chat(options, target)
    fitted = fit(options, prompts, target, chat)
    setup = {
        **_asked(options, prompts, chat),
        **_pair(options, target, drafter),
        "profile_sha256": None if profile is None else profile.digest,
        **machine.machine(place),
        **machine.code(),
    }
    return Plan(
        *(options, fitted.prompts, target, drafter, block_size or 1, chat, setup),
        encoded=fitted.encoded,
        skipped=fitted.skipped,
        context=fitted.context,
    )


def _asked(options: SpeedOptions, prompts: Sequence[Prompt], chat: bool) -> dict[str, Any]:
    """What is run, as far as figures depend on it."""
    return {
        "systems": list(options.systems),
        "prompts": options.prompts.name,
        "prompts_sha256": digest(prompts, every_turn=options.turns == "all"),
        "turns": options.turns,
        "max_tokens": options.max_tokens,
        "prompt_form": "chat" if chat else "raw",
        "thinking": options.thinking,
        "temperature": options.temperature,
        "seed": options.seed if options.temperature else None,
        "fresh_processes": bool(options.processes),
        "records": FORMAT,
    }


def _pair(options: SpeedOptions, target: Path, drafter: Path | None) -> dict[str, Any]:
    """Which checkpoints, and where they run."""
    return {
        "model": options.model or "embedded pair",
        "model_sha256": fingerprint(target),
        "model_revision": hub_revision(target),
        "draft": _draft_name(options),
        "draft_sha256": fingerprint(drafter) if drafter else None,
        "draft_revision": hub_revision(drafter) if drafter else None,
        "device": options.device,
        "dtype": options.dtype,
    }


def _draft_name(options: SpeedOptions) -> str | None:
    return options.draft or ("embedded pair" if options.model is None else None)


def _chat(options: SpeedOptions, target: Path) -> bool:
    has_template = Tokenizer.from_dir(target).has_chat_template
    if options.chat and not has_template:
        raise RequestError(
            "--chat was given, but this checkpoint has no chat template; use --raw instead."
        )
    chat = has_template if options.chat is None else options.chat
    if options.turns == "all" and not chat:
        raise RequestError("--turns all needs a chat template; leave it out, or leave out --raw.")
    return chat
