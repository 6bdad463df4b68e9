"""The figures that the kernels were made to reach, each with what was found.

All are of one H200, the 35B shape and a batch of one; the sources of the targets are SGLang's
times, the bytes that must be moved, and what a first try came to.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

Record = dict[str, Any]
Records = dict[str, list[Record]]  # by name, those of several configurations in a row

COPY = 4.28e6  # bytes a microsecond that a floor is reckoned with
LENGTHS = (1, 2, 4, 8, 16)  # rows of the products
ROUNDS = {2: 140, 4: 150, 8: 170, 16: 210}
EXPERTS = {8: 21, 25: 49, 50: 90, 100: 172}
PASSES = {1: (1900, 2100), 6: (3500, 3800), 16: (4700, 5000)}
PRODUCTS = {
    "joint": "joint projection, GDN", "joint of attention": "joint projection, attention",
    "out": "output projection", "router": "router", "head": "lm_head",
}  # fmt: skip
SGLANG = ("0.5.16", "0.5.23")
# the launches of the target's form, where it is there, else of the other
ATTENTION = (
    "attention: prepare, attend, combine by warpgroups",
    "attention: prepare, attend, combine",
)


@dataclass(frozen=True, slots=True)
class Figure:
    """what: it is of. target: in `unit`, at most or at least; None: to be known, without a target.
    found: of the records, None if they lack it."""

    what: str
    unit: str
    target: float | None
    found: Callable[[Records], float | None]
    most: bool = True

    def row(self, records: Records) -> dict[str, Any]:
        """As the document has it; `met` is None where there is no target or nothing was found."""
        found = self.found(records)
        met = None
        if found is not None and self.target is not None:
            met = found <= self.target if self.most else found >= self.target
        return {
            "figure": self.what, "unit": self.unit, "sense": "at most" if self.most else "at least",
            "target": self.target, "found": None if found is None else float(f"{found:.4g}"),
            "met": met,
        }  # fmt: skip


def figures(records: Sequence[Record]) -> list[dict[str, Any]]:
    """A row a figure."""
    by_name: Records = {}
    for r in records:
        by_name.setdefault(r["name"], []).append(r)
    return [figure.row(by_name) for figure in every()]


def every() -> Iterator[Figure]:
    """All of them, in the order of the kernels' task."""
    yield from _gdn()
    yield from _products()
    yield from _experts()
    yield from _attention()
    yield from _drafter()
    yield from _whole()


def us(records: Records, name: str, config: str | None = None) -> float | None:
    """Microseconds: the mean of both sweeps; of the first configuration that was timed, or the one
    named."""
    for r in records.get(name, ()):
        if "us" in r and config in (None, r.get("config")):
            return float(r["us"] + r.get("us_again", r["us"])) / 2
    return None


def ratio(over: str, under: str) -> Callable[[Records], float | None]:
    """Of two times."""

    def found(records: Records) -> float | None:
        a, b = us(records, over), us(records, under)
        return None if a is None or b is None else a / b

    return found


def worst(
    parts: Sequence[Callable[[Records], float | None]], pick: Callable[[list[float]], float]
) -> Callable[[Records], float | None]:
    """The worst of several; None unless all are there."""

    def found(records: Records) -> float | None:
        values = [v for part in parts if (v := part(records)) is not None]
        return pick(values) if len(values) == len(parts) else None

    return found


def time_of(*names: str) -> Callable[[Records], float | None]:
    """The time of the first of these names that was measured."""

    def found(records: Records) -> float | None:
        return next((t for n in names if (t := us(records, n)) is not None), None)

    return found


def share_of(key: str, *names: str) -> Callable[[Records], float | None]:
    """An entry of the first of these records that has it."""

    def found(records: Records) -> float | None:
        entries = (r.get(key) for name in names for r in records.get(name, ()))
        return next((entry for entry in entries if entry is not None), None)

    return found


def _round(name: str, w: int) -> str:
    return f"round {name}: w = {w}, m = {w}"


def _gdn() -> Iterator[Figure]:
    about = "GDN verification and commit of 30 layers"
    for w, most in ROUNDS.items():
        alone = f"gdn exact, CUDA: round, w = {w}"  # of the part that sweeps forms
        yield Figure(f"{about}, exact, w = {w}", "us", most, time_of(_round("exact", w), alone))
    for w in ROUNDS:
        yield Figure(
            f"{about}, exact from raw columns, w = {w}", "us", None,
            time_of(_round("exact fused", w)),
        )  # fmt: skip
        yield Figure(
            f"{about}, exact / block, w = {w}", "times", None,
            ratio(_round("exact", w), _round("block", w)),
        )  # fmt: skip
    for version in SGLANG:
        for w in ROUNDS:
            name = f"SGLang {version} per-token"
            yield Figure(
                f"{about}, {name} / exact, w = {w}", "times", 1.0,
                ratio(_round(name, w), _round("exact", w)), most=False,
            )  # fmt: skip
    for mine in ("per-token", "replay"):
        for w in ROUNDS:
            theirs = _round(f"SGLang 0.5.16 {mine}", w)
            yield Figure(
                f"{about}, SGLang 0.5.16 {mine} / ours, w = {w}", "times", 1.0,
                ratio(theirs, _round(mine, w)), most=False,
            )  # fmt: skip
    commits = [time_of(f"gdn commit, m = {m}") for m in LENGTHS]
    yield Figure("commit of all layers, any m", "us", 50, worst(commits, max))
    for kind, most in (("factors", 0.012), ("convolution columns", 0.008)):
        name = f"memory of a verification: {kind}"
        yield Figure(f"{name}, 30 layers", "GB", most, share_of("gb", name))
    name = "memory of a sequence"
    yield Figure(f"{name}: allocated / ledger, off by", "of it", 0.01, share_of("off", name))


def _products() -> Iterator[Figure]:
    for name, what in PRODUCTS.items():
        ratios = [
            ratio(f"product {name}, w = {w}, cuBLAS", f"product {name}, w = {w}") for w in LENGTHS
        ]
        yield Figure(
            f"{what}: cuBLAS / ours, worst of {LENGTHS} rows", "times", 1.0, worst(ratios, min),
            most=False,
        )  # fmt: skip
    times = [time_of(f"product 33.6 MB, w = {w}") for w in LENGTHS]
    yield Figure(f"33.6 MB product, worst of {LENGTHS} rows", "us", 9.6, worst(times, max))


def _experts() -> Iterator[Figure]:
    for count, most in EXPERTS.items():
        ours = time_of(f"stream block, U = {count}", f"block, U = {count}")
        yield Figure(f"MoE layer with router and shared expert, U = {count}", "us", most, ours)

        def against(records: Records, count: int = count) -> float | None:
            theirs = us(records, f"SGLang 0.5.16 fused_moe, U = {count}")
            mine = time_of(f"stream block, U = {count}", f"block, U = {count}")(records)
            return None if theirs is None or mine is None else theirs / mine

        yield Figure(
            f"SGLang 0.5.16 fused_moe, experts alone / MoE layer, U = {count}", "times", 1.3,
            against, most=False,
        )  # fmt: skip


def _attention() -> Iterator[Figure]:
    for w, least in ((1, 0.7), (16, 0.35)):
        names = [f"{form}, context 32768, w = {w}" for form in ATTENTION]
        yield Figure(
            f"attention, 32k context, w = {w}", "of a copy", least, share_of("of_copy", *names),
            most=False,
        )  # fmt: skip
    for context in (512, 4096, 8192, 32768):
        for w in (1, 16):
            names = [f"{form}, context {context}, w = {w}" for form in ATTENTION]
            yield Figure(
                f"attention with norms and rotation, context {context}, w = {w}", "us", None,
                time_of(*names),
            )  # fmt: skip


def _drafter() -> Iterator[Figure]:
    def over_floor(records: Records) -> float | None:
        time, size = us(records, SCORED), share_of("bytes", SCORED)(records)
        return None if time is None or size is None else time / (size / COPY)

    yield Figure(
        "drafter head with argmax, confidence and entropy / floor of lm_head", "times", 1.1,
        over_floor,
    )  # fmt: skip
    yield Figure("drafter call, 512 tokens", "us", 550, time_of("drafter and context, P = 512"))
    near, far = (f"windowed layer of the drafter: both, context {n}, w = 16" for n in (8192, 32768))
    yield Figure("windowed drafter layer, 32k / 8k context", "times", 1.1, ratio(far, near))


SCORED = "head to tokens and scores"


def _whole() -> Iterator[Figure]:
    for w, (wanted, gate) in PASSES.items():
        name = f"target pass, w = {w}"
        yield Figure(f"{name}, commit included: wanted", "us", wanted, time_of(name))
        yield Figure(f"{name}, commit included: gate", "us", gate, time_of(name))
        yield Figure(f"{name}: distinct experts a layer", "U", None, share_of("distinct", name))
    yield Figure("prefill of 8,192 tokens", "us", 400_000, time_of("prefill whole"))
