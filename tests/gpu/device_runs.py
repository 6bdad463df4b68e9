"""Engines on the device by launcher, and what an answer leaves behind, for the tests of runs."""

from __future__ import annotations

import json
from dataclasses import replace

import torch

from hybridspec import Engine, SamplingParams, assets
from hybridspec.policy.profile import load_profile
from hybridspec.runtime.check import committed
from hybridspec.runtime.device.round import Round
from hybridspec.runtime.device.rounds import DeviceRounds
from hybridspec.stream import Stream

CUDA = torch.device("cuda", 0)
CONTEXT = 1024
TEXTS = [
    json.loads(line)["turns"][0]
    for line in (assets.PAIR.parent / "prompts.jsonl").read_text("utf-8").splitlines()
]
PROMPTS = TEXTS[::5]  # of several kinds
GREEDY = SamplingParams(max_tokens=64, ignore_eos=True)
SEEDED = SamplingParams(max_tokens=64, temperature=0.9, top_p=0.95, seed=7, ignore_eos=True)
EXACT = ("ar", "static:2", "static:5", "length16", "dflash", "hybridspec", "nominal-only",
         "evict-cal", "hybridspec:per-token")  # fmt: skip
OTHERS = ("replayssm", "static:6:block")  # their states differ from plain decoding's in rounding
KNOWN: dict[tuple[str, str], Engine] = {}


def engine(launcher: str, dtype: str = "bfloat16") -> Engine:
    """One a launcher and dtype; with the profile of another machine, which is a policy like any."""
    if (launcher, dtype) not in KNOWN:
        made = fresh(launcher, dtype)
        made.profile = load_profile(assets.PROFILE)
        KNOWN[launcher, dtype] = made
    return KNOWN[launcher, dtype]


def fresh(launcher: str, dtype: str = "bfloat16", max_context: int = CONTEXT, **options) -> Engine:
    return Engine.load(
        assets.TARGET, assets.DRAFTER, device="cuda", dtype=dtype, max_context=max_context,
        launcher=launcher, **options,
    )  # fmt: skip


def said(e: Engine, prompt, params: SamplingParams, system: str, *, chat: bool = True) -> Stream:
    stream = e.stream(prompt, params, system=system, chat=chat)
    for _ in stream:
        pass
    return stream


def target_state(stream: Stream) -> dict[str, torch.Tensor]:
    return {name: part.clone() for name, part in committed(stream._sequence.slot).items()}


def everything(stream: Stream) -> dict[str, torch.Tensor]:
    """The committed state of both models; the ring is longer than all contexts here."""
    state, sequence = target_state(stream), stream._sequence
    length = sequence.slot.length
    lengths = [length]
    if stream._rounds.drafter is not None:
        context = sequence.drafter_slot
        state["full"] = context.full[..., :length, :].clone()
        state["ring"] = context.ring[..., :length, :].clone()
        lengths.append(context.length)
    return state | {"lengths": torch.tensor(lengths)}


def assert_alike(ours: dict[str, torch.Tensor], theirs: dict[str, torch.Tensor], what: str) -> None:
    for name, part in theirs.items():
        assert torch.equal(ours[name], part), f"{what}: {name}"


def on_device(stream: Stream) -> Stream:
    assert isinstance(stream._rounds, DeviceRounds)
    return stream


class Cut(Round):
    """Stopped at layer 0's router though no correction asks for it."""

    def __init__(self, plan, *rest, **options) -> None:
        super().__init__(replace(plan, split=True), *rest, **options)
