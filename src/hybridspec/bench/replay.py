"""`hybridspec bench replay`: every policy over one dense trace under one cost model."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from hybridspec.bench.files import write_atomically
from hybridspec.calibration.paper import with_paper_cost
from hybridspec.calibration.replay import (
    CostModel,
    Walk,
    distinct_pairs,
    oracle_lengths,
    replay,
    replay_known,
)
from hybridspec.calibration.trace import Trace, joined
from hybridspec.catalogue import LAUNCHER
from hybridspec.errors import RequestError
from hybridspec.policy.profile import Cost, Profile
from hybridspec.systems import parse_system

SYSTEMS = (
    "ar", "length16", "static", "dcut", "evict", "evict-cal", "evict-sts", "vllm-adaptive",
    "specdecpp:0.5", "ema", "cascade", "nominal-only:15", "hybridspec:15", "hybridspec", "auto",
)  # fmt: skip


def load_trace(folder: Path) -> Trace:
    """The trace that a calibration left in its work folder.

    Raises:
        RequestError: there is none.
    """
    parts = sorted(folder.glob("trace-*.npz"))
    if not parts:
        raise RequestError(
            f"{folder} holds no traces; expected the folder PROFILE.work of `hybridspec calibrate`."
        )
    trace = joined([Trace.load(path) for path in parts])
    if not len(trace):
        raise RequestError(f"The traces in {folder} hold no positions; capture longer answers.")
    return trace


def check_pair(folder: Path, profile: Profile) -> None:
    """Refuse a profile of another pair than the traces'.

    Raises:
        RequestError: they differ.
    """
    try:
        about = json.loads((folder / "about.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return  # traces alone say nothing of their pair
    if isinstance(about, dict) and about.get("pair", profile.pair) != profile.pair:
        raise RequestError(
            f"The traces in {folder} are of another pair than the profile. Give the profile that "
            "was made with them."
        )


def rows(
    trace: Trace, profile: Profile, systems: Sequence[str], paper: bool
) -> list[dict[str, Any]]:
    """One row a system: its rounds over the whole trace, priced by its own verifier's cost."""
    priced = with_paper_cost(profile, trace) if paper else profile
    out, block = [], trace.drafts + 1
    for name in systems:
        system = parse_system(name, block, priced)
        cost = priced.cost.get(f"{system.verifier}/{LAUNCHER}")
        if cost is None:
            raise RequestError(
                f"The profile has no costs of {system.verifier}, on which {name} runs. Leave it "
                "out, or calibrate with that verifier."
            )
        model = cost_model(trace, priced, cost, system.policy.longest - 1)
        out.append(_row(name, replay(trace, system.policy, model), model))
    exact = priced.cost.get(f"exact/{LAUNCHER}")
    if exact is not None:
        every = [_oracle(trace, priced, exact, m) for m in {exact.drafts, trace.drafts}]
        out.append(max(every, key=lambda row: row["speedup"]))
    return out


def _verifier(name: str, profile: Profile, trace: Trace) -> str:
    """The name of the costs that a system runs at; empty where its own are missing."""
    try:
        return f"{parse_system(name, trace.drafts + 1, profile).verifier}/{LAUNCHER}"
    except RequestError:
        return ""


def cost_model(trace: Trace, profile: Profile, cost: Cost, drafts: int) -> CostModel:
    """Prices of rounds that ask for so many drafts, with the experts they really had."""
    block = trace.drafts + 1
    saved = profile.draft_ms[-1] - profile.draft_ms[max(drafts, 1) - 1]
    ms = cost.round_curve(block).double().numpy() - saved
    mean = distinct_pairs(trace).mean(0)
    return CostModel(ms, cost.plain_ms, profile.eta_ms, mean, profile.s_ms)


def _row(name: str, walk: Walk, model: CostModel) -> dict[str, Any]:
    return {
        "system": name,
        "speedup": walk.rate * model.plain_ms,
        "acceptance_length": float(walk.emitted.mean()),
        "mean_w": float(walk.w.mean()),
        "ms_per_round": float(walk.ms.mean()),
        "ms_per_1000_tokens": 1e3 / walk.rate,
        "unverified_per_round": walk.wasted / len(walk.w),
        "unverified_would_be_accepted": walk.lost / max(walk.wasted, 1),
    }


def _oracle(trace: Trace, profile: Profile, cost: Cost, drafts: int) -> dict[str, Any]:
    """A_D known: bounds what any policy that drafts every round can reach at this cost."""
    model = cost_model(trace, profile, cost, drafts)
    lengths = oracle_lengths(trace, model, drafts + 1)
    return _row("oracle (A_D known)", replay_known(trace, lengths, model), model)


def run(
    work: Path, profile: Profile, systems: Sequence[str], paper: bool, out: Path | None,
    say: Callable[[str], None],
) -> None:  # fmt: skip
    """Replay, print a table and one line of JSON, and write the latter to `out`."""
    check_pair(work, profile)
    trace = load_trace(work)
    if trace.drafts != len(profile.curves_x):
        raise RequestError("The traces and the profile are of different block sizes.")
    if tuple(systems) == SYSTEMS:  # asked for by nobody: those without costs are left out
        systems = [n for n in SYSTEMS if _verifier(n, profile, trace) in profile.cost]
        missing = [n for n in SYSTEMS if n not in systems]
        if missing:
            say(f"Left out, for want of their verifier's costs: {', '.join(missing)}\n")
    every = rows(trace, profile, systems, paper)
    say(f"{len(trace)} positions, cost: {'the paper, table 4' if paper else 'as measured'}\n")
    say("system              x ar  acc. length  mean w  ms/round  unverified  of these lost\n")
    for row in every:
        say(
            f"{row['system']:18s} {row['speedup']:5.2f} {row['acceptance_length']:12.2f} "
            f"{row['mean_w']:7.2f} {row['ms_per_round']:9.2f} {row['unverified_per_round']:11.2f} "
            f"{100 * row['unverified_would_be_accepted']:13.1f}%\n"
        )
    kind = "paper" if paper else "measured"
    document = json.dumps({"bench": "replay", "cost": kind, "rows": every})
    if out is not None:
        write_atomically(out, document + "\n")
    say(document + "\n")
