"""`hybridspec calibrate`: what the length policies know, measured on this machine for one pair."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hybridspec.cli import options as o
from hybridspec.cli.interrupts import held_back
from hybridspec.cli.loading import Pair, import_engine, load_engine
from hybridspec.cli.output import note, write
from hybridspec.cli.outputs import check_out, work_folder
from hybridspec.extras import install

if TYPE_CHECKING:
    from hybridspec.bench.prompts import Prompt
    from hybridspec.engine import Engine
    from hybridspec.policy.profile import Profile

SCATTER = 0.1  # of round times about their fit; 3% on a quiet machine

Out = Annotated[Path, typer.Option("--out", metavar="PATH", help="Where the profile goes (JSON).")]
Prompts = Annotated[
    Path,
    typer.Option(
        "--prompts",
        metavar="FILE",
        help="Prompts as JSON lines with id, category and turns. Not those you will measure on.",
    ),
]
Split = Annotated[
    str | None,
    typer.Option(
        "--split",
        metavar="NAME",
        help="Only prompts of this split (calibration and test are halves where rows name none).",
    ),
]
Categories = Annotated[
    str | None,
    typer.Option("--categories", metavar="A,B", help="Only prompts of these categories."),
]
Limit = Annotated[
    int, typer.Option("--limit", metavar="N", help="At most N prompts, the categories in turn.")
]
Timed = Annotated[
    int, typer.Option("--timed-prompts", metavar="N", help="Prompts timed at every length.")
]
TimedTokens = Annotated[
    int, typer.Option("--timed-tokens", metavar="N", help="Tokens of each timed answer.")
]
Verifiers = Annotated[
    str,
    typer.Option(
        "--verifiers", metavar="A,B", help="GDN verifiers to time: exact, block, per-token, replay."
    ),
]


def calibrate(
    prompts: Prompts,
    out: Out,
    split: Split = None,
    categories: Categories = None,
    limit: Limit = 70,
    max_tokens: o.MaxTokens = 256,
    timed_prompts: Timed = 8,
    timed_tokens: TimedTokens = 64,
    verifiers: Verifiers = "exact,per-token,replay",
    model: o.Model = None,
    draft: o.Draft = None,
    revision: o.Revision = None,
    draft_revision: o.DraftRevision = None,
    device: o.Device = "auto",
    dtype: o.DType = "auto",
) -> None:
    """Fit a calibration profile of a pair on this device.

    It captures plain decoding's answers to the prompts with a whole draft and verification at every
    position, times rounds of every length, and fits acceptance and cost. Needs the extra
    `calibrate` (scikit-learn). What is done is kept in OUT.work, so a run that was interrupted goes
    on where it was; delete that folder when you no longer need its traces.
    """
    _check_sizes(limit, max_tokens, timed_prompts, timed_tokens)
    check_out(out, prompts)
    chosen_verifiers = _verifiers(verifiers)
    _check_extra()
    pair = Pair(model, draft, revision, draft_revision)
    import_engine()
    engine = load_engine(pair, system=None, device=device, dtype=dtype, max_context=None)
    chosen = _chosen(prompts, split, categories, limit)
    sizes = {"max_tokens": max_tokens, "timed_tokens": timed_tokens, "timed": timed_prompts}
    profile = _run(engine, pair, chosen, sizes, chosen_verifiers, out)
    profile.save(out)
    _report(profile, out)


def _check_sizes(limit: int, max_tokens: int, timed_prompts: int, timed_tokens: int) -> None:
    from hybridspec.errors import OptionError

    least = {
        "limit": (limit, 1),
        "max_tokens": (max_tokens, 2),
        "timed_prompts": (timed_prompts, 1),
        "timed_tokens": (timed_tokens, 2),
    }
    for name, (value, fewest) in least.items():
        if value < fewest:
            raise OptionError(name, f"is {value}; expected at least {fewest}.")


def _check_extra() -> None:
    from hybridspec.errors import RequestError

    try:
        with held_back():
            import sklearn  # noqa: F401
    except ImportError:
        raise RequestError(
            "Calibration needs scikit-learn, which is not installed. Install it with "
            f"{install('calibrate')}."
        ) from None


def _chosen(path: Path, split: str | None, categories: str | None, limit: int) -> list[Prompt]:
    from hybridspec.bench.prompts import read_prompts, select
    from hybridspec.errors import RequestError

    names = tuple(n for part in (categories or "").split(",") if (n := part.strip()))
    chosen = select(read_prompts(path), split=split, categories=names, limit=limit)
    if len({p.category for p in chosen}) == 1 and not names:
        raise RequestError(
            f"All chosen prompts are of the category {chosen[0].category!r}; a profile from one "
            "kind of text misjudges the others. Add prompts of other categories or raise --limit, "
            "or name this category with --categories if you mean it."
        )
    return chosen


def _verifiers(names: str) -> tuple[Any, ...]:
    from hybridspec.errors import OptionError
    from hybridspec.model.gdn import VERIFY

    chosen = tuple(dict.fromkeys(name.strip() for name in names.split(",")))
    for name in chosen:
        if name not in VERIFY:
            raise OptionError("verifiers", f"names {name!r}; expected some of {', '.join(VERIFY)}.")
    return chosen


def _run(
    engine: Engine,
    pair: Pair,
    prompts: list[Prompt],
    sizes: dict[str, int],
    verifiers: tuple[Any, ...],
    out: Path,
) -> Profile:
    """Everything between the loaded engine and the profile."""
    from hybridspec.bench.files import locked
    from hybridspec.bench.progress import Progress
    from hybridspec.bench.prompts import digest
    from hybridspec.calibration.calibrate import Plan
    from hybridspec.calibration.calibrate import calibrate as run

    ids = _encoded(engine, prompts, max(sizes["max_tokens"], sizes["timed_tokens"]))
    found = _identity(engine, pair)
    place = {name: found["runtime"][name] for name in ("device", "dtype")}
    what = {"prompts": len(ids), "prompts_sha256": digest(prompts)}
    about = {"pair": found["pair"], **place, **what, "max_tokens": sizes["max_tokens"]}
    timed = {name: sizes[name] for name in ("timed", "timed_tokens")}
    plan = Plan(
        [*ids.values()], sizes["max_tokens"], sizes["timed"], sizes["timed_tokens"], verifiers,
        about=about, machine={"runtime": found["runtime"], **timed}, names=[*ids],
    )  # fmt: skip
    work = work_folder(out)
    with locked(work), Progress(plan.steps) as advance:
        return run(engine, plan, work, advance)


def _encoded(engine: Engine, prompts: list[Prompt], answer: int) -> dict[str, list[int]]:
    """Token ids, by prompt id, of the prompts that fit the context; the others are counted."""
    from hybridspec.errors import RequestError

    chat = engine.tokenizer is not None and engine.tokenizer.has_chat_template
    every = {p.id: engine.encode(p.text, chat=chat) for p in prompts}
    fitting = {n: ids for n, ids in every.items() if len(ids) + answer <= engine.max_context}
    if len(fitting) < len(every):
        note(f"Note: {len(every) - len(fitting)} of {len(every)} prompts are too long, left out.")
    if not fitting:
        raise RequestError("No prompt fits the context with its answer; give shorter ones.")
    return fitting


def _identity(engine: Engine, pair: Pair) -> dict[str, Any]:
    """The pair's bytes, and the runtime with what people may want to know of it."""
    from hybridspec.bench.machine import machine
    from hybridspec.errors import RequestError
    from hybridspec.profiles import pair_identity, runtime_identity
    from hybridspec.sources import find_pair

    target, drafter = find_pair(pair.model, pair.draft, pair.revision, pair.draft_revision)
    if drafter is None:
        raise RequestError("Calibration needs a drafter. Name one with --draft.")
    place = engine.target.device
    facts = {k: str(v) for k, v in machine(place).items()}
    return {
        "pair": pair_identity(target, drafter),
        "runtime": facts | runtime_identity(place, engine.target.dtype),
    }


def _report(profile: Profile, out: Path) -> None:
    write(f"Wrote {out}\n")
    for name, cost in profile.cost.items():
        write(
            f"{name}: plain {cost.plain_ms:.2f} ms, drafting {cost.fixed_ms:.2f} ms, w = 2 "
            f"{cost.ms[2]:.2f} ms, w = {max(cost.ms)} {cost.ms[max(cost.ms)]:.2f} ms, best fixed "
            f"length {cost.static}, drafts {cost.drafts}, rho {cost.rho:.3f} tokens a ms\n"
        )
    for name, rates in (profile.data.get("static_tokens_per_second") or {}).items():
        each = ", ".join(f"w = {w} {rate:.0f}" for w, rate in rates.items())
        write(f"{name}: fixed lengths measured again on all prompts, tokens a second: {each}\n")
    proxy = profile.data.get("layer0_proxy")
    if proxy is not None:
        write(
            "New layer-0 experts of a draft against its new pairs in later layers: correlation "
            f"{proxy['correlation']:.2f}, {proxy['slope']:.1f} pairs an expert\n"
        )
    held = profile.data.get("reliability") or {}
    if held:
        errors = ", ".join(f"{name} {100 * r['ece']:.1f}%" for name, r in held.items())
        write(f"Calibration error on prompts left out of the fit: {errors}\n")
    for doubt in _doubts(profile):
        note(doubt)


def _doubts(profile: Profile) -> Iterator[str]:
    """What speaks against using a profile."""
    for name, cost in profile.cost.items():
        curve = cost.round_curve(max(cost.ms))
        off = [float(curve[w]) / ms - 1 for w, ms in cost.ms.items()]
        scatter = (sum(x * x for x in off) / len(off)) ** 0.5
        if scatter > SCATTER:
            yield (
                f"Warning: the times of {name} lie {100 * scatter:.0f}% off their fit, so lengths "
                "chosen by them may be wrong. Calibrate on a quiet machine, or with more "
                "--timed-prompts and --timed-tokens."
            )
    held = profile.data.get("reliability") or {}
    if held and held["model"]["ece"] > held["confidence"]["ece"]:
        yield (
            "Warning: the acceptance model is no better than the drafter's raw confidence. Capture "
            "more prompts (--limit) or longer answers (--max-tokens)."
        )
