"""The bench of scripted runs: build, calibrate, let every system answer, check, report.

    PYTHONPATH=src python -m hybridspec.bench.scripted --out benchmarks/local

`hybridspec bench scripted` is the same where typer is installed.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any, Literal

import torch

from hybridspec.bench.files import made, write_atomically
from hybridspec.bench.machine import circumstances, code, machine
from hybridspec.bench.scripted.answers import Answers
from hybridspec.bench.scripted.calibration import blocks, calibrate, with_experts
from hybridspec.bench.scripted.check import ScriptError
from hybridspec.bench.scripted.executor import Executor, HostExecutor
from hybridspec.bench.scripted.facts import Facts, Routing, observe
from hybridspec.bench.scripted.ledger import Ledger
from hybridspec.bench.scripted.model import Name, Pair
from hybridspec.bench.scripted.paper import DFLASH_AL
from hybridspec.bench.scripted.plan import Plan
from hybridspec.bench.scripted.runs import Runs
from hybridspec.bench.scripted.tables import Gain, Rows, figures, table
from hybridspec.bench.scripted.thinning import Thinned
from hybridspec.bench.scripted.traces import Fit, Traces
from hybridspec.bench.scripted.verb import NAME, SCHEMA
from hybridspec.bench.small import shape_is, warned
from hybridspec.policy.profile import Profile
from hybridspec.runtime.launching import Launcher
from hybridspec.systems import parse_system

MakeExecutor = Callable[[Pair, int], Executor]


@torch.no_grad()
def run(given: argparse.Namespace, make: MakeExecutor | None = None) -> int:
    """All of it; 0.

    Args:
        given: as `verb.parser` has parsed it.
        make: the executor of a pair, for so many tokens of context; None takes the one asked for.

    Raises:
        HybridSpecError: options, traces or a runtime that cannot be used, or a check that fails.
    """
    plan, traces = Plan.of(given), Traces.load(given.traces)
    if given.out is not None:
        made(_place(given.out).parent)  # what is wrong with it shows before the work
    pair = _built(plan, _named(plan, traces, given.pair), given.seed)
    routing = _looked_at(plan, pair)
    executor = (make or _executor(given.launcher))(pair, plan.capacity)
    answers = Answers(pair, executor, plan.capacity)
    profile = _calibrated(plan, answers, traces.fits[given.pair], routing)
    block = plan.shape.drafter.block_size
    runs = Runs(answers, [parse_system(name, block, profile) for name in plan.systems])
    control = runs.control()
    _say(f"Self-test passed: {control}\n")
    with _told("Answered"):
        rows = runs.all(plan.categories, plan.answers, plan.tokens)
    about = {
        "executor": executor.name, "pair": given.pair, "routing": given.routing,
        "control": control, "memory": _memory(plan, answers), "profile": asdict(profile),
        "traces": _described(pair, given.pair),
    }  # fmt: skip
    _write(given.out, _document(plan, pair) | _reported(rows, Facts.of(routing), plan) | about)
    return 0


def _executor(launcher: Launcher | Literal["host"]) -> MakeExecutor:
    if launcher == "host":
        return HostExecutor
    from hybridspec.bench.scripted.device import DeviceExecutor

    def make(pair: Pair, capacity: int) -> Executor:
        return DeviceExecutor(pair, capacity, launcher)

    return make


def _named(plan: Plan, traces: Traces, published: str) -> dict[Name, Thinned]:
    """Every split's categories at the published acceptance."""
    return {
        (split, category): thin
        for split, positions in plan.positions.items()
        for category, thin in traces.of(published, split, positions).items()
    }


def _document(plan: Plan, pair: Pair) -> dict[str, Any]:
    """What ran, and on what."""
    return {
        "schema": SCHEMA, **shape_is(plan.small),
            "machine": machine(pair.target.device), "code": code(),
        "run": circumstances(), "recipe": asdict(plan.recipe), "shape": asdict(plan.shape.target),
        "context": plan.context, "tokens": plan.tokens, "answers": plan.answers,
    }  # fmt: skip


def _reported(rows: Rows, facts: Facts, plan: Plan) -> dict[str, Any]:
    """The figures, printed.

    What equation 6 brings is left out where routing is not as in text, or not both systems ran.
    """
    found, gain = figures(rows), None
    said = warned(shape_is(plan.small), table(found))
    _say(f"\n{said}\n\nAll tokens are the known ones, all states those of ar.\n")
    if facts.like_text and {"hybridspec", "nominal-only"} <= rows.keys():
        gain = Gain.of(rows["hybridspec"], rows["nominal-only"])
        _say(f"{gain.line()}\n")
    correction = None if gain is None else asdict(gain)
    return {"facts": asdict(facts), "systems": found, "correction": correction}


def _calibrated(plan: Plan, answers: Answers, fit: Fit, routing: Routing) -> Profile:
    with _told("Calibrated"):
        answers.prompt(0, plan.context)
        return calibrate(answers, fit, with_experts(routing.experts), plan)


def _built(plan: Plan, named: dict[Name, Thinned], seed: int) -> Pair:
    cuda = torch.cuda.is_available()
    device = torch.device("cuda", torch.cuda.current_device()) if cuda else torch.device("cpu")
    dtype = torch.bfloat16 if cuda else torch.float32
    with _told("Made the weights"):
        return Pair.make(plan.shape, plan.recipe, named, device, dtype, seed)


def _looked_at(plan: Plan, pair: Pair) -> Routing:
    """Routing and logits of inputs as rounds will have them, printed.

    Raises:
        ScriptError: an input whose best logit is not its successor's.
    """
    with _told("Looked at the routing"):
        routing = observe(pair.target, blocks(pair, plan.blocks), pair.cycle.successors())
    _say(f"{Facts.of(routing).line()}\n")
    if not routing.right:
        raise ScriptError(
            "The target does not follow its cycle: some token's best logit is not its successor's. "
            "Give tokens a smaller shared factor, or layers a smaller part."
        )
    return routing


def _described(pair: Pair, published: str) -> dict[str, Any]:
    """What became of the recorded answers."""
    return {
        f"{split}/{category}": {
            "published": DFLASH_AL[published][category], "mean": part.trace.mean,
            "tilt": part.trace.tilt, "rounds": part.trace.rounds, "kept": len(part.trace.starts),
            "distinct": part.trace.distinct, "positions": len(part.rows),
        }
        for (split, category), part in pair.parts.items()
    }  # fmt: skip


def _memory(plan: Plan, answers: Answers) -> dict[str, Any]:
    """Bytes: of the sequence, on a GPU the most that were allocated, and what they are for."""
    cuda, target = torch.cuda.is_available(), answers.executor.target
    most = torch.cuda.max_memory_allocated() if cuda else 0
    ledger = Ledger(plan.shape, target.dtype, joint=cuda).document()
    return {"sequence": answers.nbytes, "most_allocated": most, "ledger": ledger}


@contextmanager
def _told(what: str) -> Iterator[None]:
    """Say how long it took."""
    began = time.perf_counter()
    yield
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    _say(f"{what}: {time.perf_counter() - began:.1f} s\n")


def _say(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()


def _place(out: Path) -> Path:
    return out if out.suffix == ".json" else out / NAME


def _write(path: Path | None, document: dict[str, Any]) -> None:
    if path is not None:
        path = _place(path)
        made(path.parent)
        write_atomically(path, json.dumps(document, indent=1) + "\n")
        _say(f"Wrote {path}\n")
