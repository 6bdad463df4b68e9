"""`hybridspec bench replay`: every policy over one dense trace under one cost model."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from hybridspec.bench.files import write_atomically
from hybridspec.calibration.paper import with_paper_cost
from hybridspec.calibration.replay import (
    CostModel,
    Walk,
    distinct_pairs,
    expert_oracle_lengths,
    oracle_lengths,
    replay,
    replay_known,
)
from hybridspec.calibration.trace import Trace, joined
from hybridspec.catalogue import LAUNCHER
from hybridspec.errors import RequestError
from hybridspec.policy.profile import Cost, Profile
from hybridspec.systems import System, parse_system

SYSTEMS = (
    "ar", "length16", "static", "dcut", "evict", "evict-cal", "evict-sts", "vllm-adaptive",
    "specdecpp:0.5", "ema", "cascade", "nominal-only:15", "hybridspec:15", "hybridspec+look:3:15",
    "hybridspec+shrink:1:15", "hybridspec+shrink:3:15", "hybridspec", "auto", "auto+correct",
)  # fmt: skip


HEAD = "system                     SR           AL       w  ms/round  unverified       missed\n"
NOTE = (
    "SR: speed over that of ar; AL: tokens a round; unverified: drafts of a whole block that were "
    "not\nverified; missed: the share of these that would have been accepted. Each system pays for "
    "its own GDN\nverifier, the oracles for `exact`: a system on a cheaper one may pass them.\n"
)


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


def capture_facts(folder: Path) -> dict[str, Any]:
    """What a calibration wrote down of its traces; nothing where they lie alone.

    Raises:
        RequestError: what it wrote down is damaged.
    """
    path = folder / "about.json"
    try:
        text = path.read_text(encoding="utf-8")
        about = json.loads(text) if text.strip() else {}
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise RequestError(f"{path} cannot be read: {error.strerror}.") from None
    except (ValueError, RecursionError):
        about = None
    if not isinstance(about, dict) or not _is_length(about.get("max_tokens")):
        raise RequestError(
            f"{path} is damaged; expected what `hybridspec calibrate` wrote. Run it again with the "
            "same arguments: it keeps the traces."
        )
    return about


def _is_length(value: object) -> bool:
    """Whether it can be the most tokens of a captured answer; None where nothing says it."""
    return value is None or (type(value) is int and value > 1)


def check_pair(folder: Path, profile: Profile) -> None:
    """Refuse a profile of another pair than the traces'.

    Raises:
        RequestError: they differ.
    """
    if capture_facts(folder).get("pair", profile.pair) != profile.pair:
        raise RequestError(
            f"The traces in {folder} are of another pair than the profile. Give the profile that "
            "was made with them."
        )


def check_shape(trace: Trace, profile: Profile) -> None:
    """Refuse a profile of another block size than the traces', or of fewer experts a token.

    Raises:
        RequestError: they differ.
    """
    if trace.drafts != len(profile.curves_x):
        raise RequestError("The traces and the profile are of different block sizes.")
    if trace.experts.shape[-1] >= len(profile.n_all_given[0]):
        raise RequestError(
            f"The traces have {trace.experts.shape[-1]} experts a token and the profile's "
            f"n_all_given serves {len(profile.n_all_given[0]) - 1}. Give the profile that was made "
            "with them."
        )


def rows(
    trace: Trace, profile: Profile, systems: Sequence[str], paper: bool, limit: int | None = None
) -> list[dict[str, Any]]:
    """One row a system: its rounds over the whole trace, priced by its own verifier's cost.

    limit: most tokens of an answer, as the capture had it.
    """
    priced = with_paper_cost(profile, trace) if paper else profile
    out = []
    for name in systems:
        system, model = priced_system(name, trace, priced)
        out.append(_row(name, replay(trace, system.policy, model, limit), model))
    return out + _oracles(trace, priced)


def priced_system(name: str, trace: Trace, profile: Profile) -> tuple[System, CostModel]:
    """A system and the prices of its rounds.

    Raises:
        RequestError: no such system, or the profile lacks the costs of its verifier.
    """
    system = parse_system(name, trace.drafts + 1, profile)
    cost = profile.cost.get(f"{system.verifier}/{LAUNCHER}")
    if cost is None:
        raise RequestError(
            f"The profile has no costs of {system.verifier}, on which {name} runs. Leave it "
            "out, or calibrate with that verifier."
        )
    return system, cost_model(trace, profile, cost)


def _oracles(trace: Trace, profile: Profile) -> list[dict[str, Any]]:
    """Rows of what no policy can know, each with the number of drafts that serves it best."""
    exact = profile.cost.get(f"exact/{LAUNCHER}")
    if exact is None:
        return []
    model, calls = cost_model(trace, profile, exact), {exact.drafts, trace.drafts}
    every = [[_known(trace, model, m), _experts(trace, profile, model, m)] for m in calls]
    return [max(rows, key=lambda row: row["speedup"]) for rows in zip(*every, strict=True)]


def has_costs(name: str, profile: Profile, trace: Trace) -> bool:
    """Whether the profile has the costs of a system's verifier."""
    try:
        verifier = parse_system(name, trace.drafts + 1, profile).verifier
    except RequestError:
        return False
    return f"{verifier}/{LAUNCHER}" in profile.cost


def cost_model(trace: Trace, profile: Profile, cost: Cost) -> CostModel:
    """Prices of rounds, with the drafts they ask for and the experts they really have."""
    ms = cost.round_curve(trace.drafts + 1).double().numpy()
    call = np.array([profile.draft_ms[0], *profile.draft_ms])  # at index drafts; 0 is never asked
    mean = distinct_pairs(trace).mean(0)
    return CostModel(ms, cost.plain_ms, profile.eta_ms, mean, profile.s_ms, call[-1] - call)


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


def _known(trace: Trace, model: CostModel, drafts: int) -> dict[str, Any]:
    """A_D known: bounds what any policy that drafts every round can reach at this cost."""
    lengths = oracle_lengths(trace, model, drafts + 1)
    return _row("oracle (A_D known)", replay_known(trace, lengths, model, drafts), model)


def _experts(trace: Trace, profile: Profile, model: CostModel, drafts: int) -> dict[str, Any]:
    """All experts known before the choice: bounds what a look at the router can bring."""
    scores = (torch.from_numpy(t[:, :drafts]) for t in (trace.confidence, trace.entropy))
    prefix = profile.acceptance().prefix(*scores).double().numpy()
    lengths = expert_oracle_lengths(trace, prefix, model)
    return _row("oracle (experts known)", replay_known(trace, lengths, model, drafts), model)


def run(
    work: Path, profile: Profile, systems: Sequence[str], paper: bool, out: Path | None,
    say: Callable[[str], None],
) -> None:  # fmt: skip
    """Replay, print a table and one line of JSON, and write the latter to `out`."""
    check_pair(work, profile)
    trace = load_trace(work)
    check_shape(trace, profile)
    if tuple(systems) == SYSTEMS:  # asked for by nobody: those without costs are left out
        systems = [n for n in SYSTEMS if has_costs(n, profile, trace)]
        missing = [n for n in SYSTEMS if n not in systems]
        if missing:
            say(f"Left out, for want of their verifier's costs: {', '.join(missing)}\n")
    every = rows(trace, profile, systems, paper, capture_facts(work).get("max_tokens"))
    say(f"{len(trace)} positions, cost: {'the paper, table 4' if paper else 'as measured'}\n")
    say(HEAD)
    for row in every:
        say(
            f"{row['system']:23s} {row['speedup']:5.2f} {row['acceptance_length']:12.2f} "
            f"{row['mean_w']:7.2f} {row['ms_per_round']:9.2f} {row['unverified_per_round']:11.2f} "
            f"{100 * row['unverified_would_be_accepted']:13.1f}%\n"
        )
    say(NOTE)
    kind = "paper" if paper else "measured"
    document = json.dumps({"bench": "replay", "cost": kind, "rows": every})
    if out is not None:
        write_atomically(out, document + "\n")
    say(document + "\n")
