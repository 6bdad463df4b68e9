"""What all parts share: the pair, made once; an executor a launcher; systems by name."""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

import torch

from hybridspec.bench.scripted.answers import Answer, Answers
from hybridspec.bench.scripted.calibration import blocks, calibrate, with_experts
from hybridspec.bench.scripted.check import USELESS, ScriptError
from hybridspec.bench.scripted.clocks.verb import SYSTEMS
from hybridspec.bench.scripted.device import DeviceExecutor
from hybridspec.bench.scripted.executor import Executor, HostExecutor
from hybridspec.bench.scripted.facts import observe
from hybridspec.bench.scripted.model import Pair
from hybridspec.bench.scripted.paper import CATEGORIES, PAIRS
from hybridspec.bench.scripted.plan import Plan, verifier_of
from hybridspec.bench.scripted.shapes import SHAPES, Shape
from hybridspec.bench.scripted.traces import Traces
from hybridspec.bench.scripted.weights import RECIPES
from hybridspec.policy.profile import Profile
from hybridspec.runtime.launching import ON_DEVICE
from hybridspec.systems import System, parse_system

CATEGORY = CATEGORIES[0]  # whose trace all answers walk, from its start: so turns can be compared
WARM = 8  # tokens of an answer that is not timed: what is compiled and recorded is then there


def small() -> Shape:
    """A layer of each kind, as few experts and tokens as the interpreter is patient for."""
    shape = SHAPES["small"]
    target = replace(
        shape.target, vocab_size=128, hidden_size=128, num_experts=4, num_experts_per_tok=2,
        layer_types=("linear_attention", "full_attention"), moe_intermediate_size=16,
        shared_expert_intermediate_size=16,
    )  # fmt: skip
    drafter = replace(
        shape.drafter, vocab_size=128, hidden_size=128, mask_token_id=120, intermediate_size=32,
        target_layer_ids=(0, 1), num_target_layers=2,
    )  # fmt: skip
    return Shape(target, drafter, {*range(120, 128)})


def planned(given: argparse.Namespace) -> Plan:
    """What the options ask for; what was left open, by the shape."""
    context, tokens, timed, seen = (12, 6, 4, 16) if given.small else (512, 96, 48, 256)
    systems = given.systems or (SYSTEMS[:2] if given.small else SYSTEMS)
    return Plan(
        small() if given.small else SHAPES["35b"], RECIPES["skewed"], systems, (CATEGORY,),
        given.context or context, 1, given.tokens or tokens, timed, seen, 1,
    )  # fmt: skip


def age() -> float:
    """Seconds since this process began; 0 where the system does not say."""
    try:
        ticks = int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19])
        uptime = float(Path("/proc/uptime").read_text().split()[0])
    except (OSError, ValueError, IndexError):
        return 0.0
    return max(0.0, uptime - ticks / os.sysconf("SC_CLK_TCK"))


@dataclass
class Board:
    """One run of the clocks.

    Attributes:
        turns: answers of each variant.
        took: seconds of what was made once, in order; `process`: until this was made.
    """

    given: argparse.Namespace
    plan: Plan
    device: torch.device
    turns: int
    took: dict[str, float] = field(default_factory=dict)
    _answers: dict[str, Answers] = field(default_factory=dict)
    _systems: dict[str, System] = field(default_factory=dict)

    @classmethod
    def of(cls, given: argparse.Namespace) -> Board:
        """For parsed options, on the current GPU or a CPU."""
        cuda = torch.cuda.is_available()
        device = torch.device("cuda", torch.cuda.current_device()) if cuda else torch.device("cpu")
        turns = given.turns or (2 if given.small else 5)
        return cls(given, planned(given), device, turns, {"process": round(age(), 3)})

    @cached_property
    def traces(self) -> Traces:
        """The recorded answers."""
        return Traces.load(self.given.traces)

    @cached_property
    def pair(self) -> Pair:
        """Scripted weights and drafts."""
        dtype = torch.bfloat16 if self.device.type == "cuda" else torch.float32
        with self.timed("traces"):
            named = {
                (split, category): thin
                for split, positions in self.plan.positions.items()
                for category, thin in self.traces.of(PAIRS[0], split, positions).items()
            }
        with self.timed("weights"):
            return Pair.make(
                self.plan.shape, self.plan.recipe, named, self.device, dtype, self.given.seed
            )

    @cached_property
    def profile(self) -> Profile:
        """A short calibration of the launcher that is asked for."""
        answers, fit = self.answers(self.given.launcher), self.traces.fits[PAIRS[0]]
        with self.timed("calibration"):
            inputs = blocks(self.pair, self.plan.blocks)
            routing = observe(self.pair.target, inputs, self.pair.cycle.successors())
            return calibrate(answers, fit, with_experts(routing.experts), self.plan)

    def executor(self, launcher: str) -> Executor:
        """A new one."""
        for known in ON_DEVICE:
            if known == launcher:
                return DeviceExecutor(self.pair, self.plan.capacity, known)
        return HostExecutor(self.pair, self.plan.capacity)

    def prompted(self, executor: Executor) -> Answers:
        """Memory of one sequence for it, behind the prompt."""
        answers = Answers(self.pair, executor, self.plan.capacity)
        answers.prompt(0, self.plan.context)
        return answers

    def answers(self, launcher: str) -> Answers:
        """Its one sequence."""
        if launcher not in self._answers:
            with self.timed(f"{launcher}: executor"):
                executor = self.executor(launcher)
            with self.timed(f"{launcher}: prompt"):
                self._answers[launcher] = self.prompted(executor)
        return self._answers[launcher]

    def system(self, name: str) -> System:
        """Its one object, by which runs know it."""
        if name not in self._systems:
            self._systems[name] = self._system(name)
        return self._systems[name]

    @property
    def is_built(self) -> bool:
        """Whether the pair's weights are in memory."""
        return "pair" in vars(self)

    def say(self, answers: Answers, name: str, tokens: int | None = None) -> Answer:
        """An answer by a system, whose tokens are the known ones.

        Raises:
            ScriptError: they are others.
        """
        system, count = self.system(name), tokens or self.plan.tokens
        self.pair.begin(("test", CATEGORY), answers.length)
        answer = answers.answer(system, count)
        known = self.pair.cycle.known(answers.anchor, count).tolist()
        if list(answer.tokens) != known:
            raise ScriptError(f"{name} did not emit the known continuation. {USELESS}")
        return answer

    @contextmanager
    def timed(self, what: str) -> Iterator[None]:
        """Keep how long it took, the device's work included."""
        began = time.perf_counter()
        yield
        self.wait()
        self.took[what] = round(time.perf_counter() - began, 3)

    def used(self) -> int:
        """Bytes of the GPU that are taken, by whomever; 0 without one."""
        self.wait()
        if self.device.type != "cuda":
            return 0
        free, total = torch.cuda.mem_get_info(self.device)
        return total - free

    def wait(self) -> None:
        """Until the device has nothing to do."""
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)

    def _system(self, name: str) -> System:
        block = self.plan.shape.drafter.block_size
        return parse_system(name, block, self.profile if verifier_of(name) else None)
