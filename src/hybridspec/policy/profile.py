"""A calibration profile: what was fitted to a pair and measured on a runtime, as one JSON file.

A profile speaks of one pair (by its bytes) and one runtime (device, dtype); it is refused for any
other, since its costs and probabilities would be somebody else's.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import Tensor

from hybridspec.errors import HybridSpecError
from hybridspec.policy.acceptance import TERMS, AcceptanceModel, IsotonicCurves
from hybridspec.policy.objective import CorrectionTables

SCHEMA = "hybridspec.profile/1"
MOST_BYTES = 16 << 20
MOST = torch.finfo(torch.float32).max  # of a number: policies compute in float32
ROUNDING = 1e-6  # a softmax in float32 may be so far beyond 1
T = TypeVar("T")
Runtime = Mapping[str, str]


class ProfileError(HybridSpecError):
    """A profile that cannot be used."""


@dataclass(frozen=True)
class Cost:
    """What rounds of one verifier and launcher cost.

    Attributes:
        ms: typical ms a round by length, as measured: {w: ms}. The drafter proposes a whole block.
        quadratic: a, b, c of the fit a + b w + c w^2 to the lengths from 2.
        fixed_ms: the part of the fit that no length changes, taken out of C_tgt: a draft call for
            the whole block.
        plain_ms: a round of plain decoding, without a drafter.
        static: the fixed length with the most tokens a ms on the calibration prompts.
        drafts: how many drafts pay best where the drafter may be asked for fewer; rho goes with it.
        rho: tokens a ms, the fixed point of Dinkelbach's iteration.
    """

    ms: dict[int, float]
    quadratic: tuple[float, float, float]
    fixed_ms: float
    plain_ms: float
    rho: float
    static: int
    drafts: int

    def target_curve(self, longest: int) -> Tensor:
        """C_tgt(w), [longest + 1] ms at index w: the fit less its fixed part (appendix A.2)."""
        return self.round_curve(longest) - self.fixed_ms

    def round_curve(self, longest: int) -> Tensor:
        """Whole rounds by the fit, [longest + 1] ms at index w."""
        w = torch.arange(longest + 1, dtype=torch.float32)
        a, b, c = self.quadratic
        return a + b * w + c * w * w


@dataclass(frozen=True)
class Profile:
    """All that a policy needs to know beforehand.

    Attributes:
        pair: {"target": sha256, "drafter": sha256}.
        runtime: device, dtype and versions; `device` and `dtype` must match to use it.
        curves_x, curves_y: knots of each position's isotonic curve.
        weights: of the logistic model, in the order of acceptance.TERMS.
        cost: by "verifier/launcher".
        draft_ms: [D] a call for 1..D scored drafts.
        s_ms, eta_ms: one more token in Stage 0; one more distinct (layer, expert) pair.
        n_all_mean, n_all_given: the tables of equation 6, by length and by length and new experts.
        temperatures: DSpark's sequential temperature scaling, one a position.
        data: counts, fit errors, reliability and the prompts' hash, for people.
    """

    pair: dict[str, str]
    runtime: dict[str, str]
    curves_x: tuple[tuple[float, ...], ...]
    curves_y: tuple[tuple[float, ...], ...]
    weights: tuple[float, ...]
    cost: dict[str, Cost]
    draft_ms: tuple[float, ...]
    s_ms: float
    eta_ms: float
    n_all_mean: tuple[float, ...]
    n_all_given: tuple[tuple[float, ...], ...]
    temperatures: tuple[float, ...]
    data: dict[str, Any] = field(default_factory=dict)

    def __repr__(self) -> str:
        """Short, for messages."""
        return f"<Profile on {self.runtime.get('device')}, {self.runtime.get('dtype')}>"

    def acceptance(self) -> AcceptanceModel:
        """The acceptance model, float32."""
        width = max(2, *(len(x) for x in self.curves_x))
        x, y = (torch.tensor([_filled(r, width) for r in rows]) for rows in
                (self.curves_x, self.curves_y))  # fmt: skip
        return AcceptanceModel(IsotonicCurves(x, y), torch.tensor(self.weights))

    def tables(self) -> CorrectionTables:
        """What equation 6 reads."""
        mean, given = torch.tensor(self.n_all_mean), torch.tensor(self.n_all_given)
        return CorrectionTables(self.s_ms, self.eta_ms, mean, given)

    @property
    def digest(self) -> str:
        """SHA-256 of all it holds."""
        return hashlib.sha256(json.dumps(asdict(self), sort_keys=True).encode()).hexdigest()

    def save(self, path: Path) -> None:
        """Write it beside the old one, then rename: a full disk leaves the old one whole."""
        body = {"schema": SCHEMA, **asdict(self)}
        early = path.with_name(path.name + ".part")
        try:
            early.write_text(json.dumps(body, indent=1) + "\n", encoding="utf-8")
            os.replace(early, path)
        except OSError as error:
            early.unlink(missing_ok=True)
            raise ProfileError(f"{path} cannot be written: {error.strerror}.") from None


def _filled(row: tuple[float, ...], width: int) -> list[float]:
    return [*row, *[row[-1]] * (width - len(row))]


def load_profile(path: Path) -> Profile:
    """Read a profile.

    Raises:
        ProfileError: the file cannot be read, is of another schema, or a field is missing or of
            another shape; the sentence names it.
    """
    try:
        body = json.loads(_text(path))
    except (OSError, ValueError, RecursionError) as error:
        said = getattr(error, "strerror", None) or "it is not JSON"
        raise ProfileError(f"The profile {path} cannot be read: {said}.") from None
    if not isinstance(body, dict) or body.get("schema") != SCHEMA:
        found = str(body.get("schema") if isinstance(body, dict) else None)[:80]
        raise ProfileError(
            f"The profile {path} has the schema {found!r}; expected {SCHEMA!r}. Make a new one "
            "with `hybridspec calibrate`."
        )
    try:
        return _parsed(body)
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        what = f"the field {error.args[0]!r} is missing" if isinstance(error, KeyError) else (
            f"a field has another form than expected ({error})"
        )  # fmt: skip
        raise ProfileError(
            f"The profile {path} is damaged: {what}. Make a new one with `hybridspec calibrate`."
        ) from None


def _text(path: Path) -> str:
    """The file's text; one that is no regular file may have no end."""
    if path.exists() and not path.is_file():
        raise ProfileError(f"The profile {path} cannot be read: it is not a regular file.")
    if path.exists() and path.stat().st_size > MOST_BYTES:
        raise ProfileError(f"The profile {path} is larger than {MOST_BYTES >> 20} MiB.")
    return path.read_text(encoding="utf-8")


def _parsed(body: dict[str, Any]) -> Profile:
    profile = Profile(
        pair=_field(body, "pair", lambda v: {k: str(v[k]) for k in ("target", "drafter")}),
        runtime=_field(body, "runtime", lambda v: {str(k): str(x) for k, x in v.items()}),
        curves_x=_field(body, "curves_x", _rows),
        curves_y=_field(body, "curves_y", _rows),
        weights=_field(body, "weights", _row),
        cost=_field(body, "cost", _costs),
        draft_ms=_field(body, "draft_ms", lambda v: _row(v, _time)),
        s_ms=_field(body, "s_ms", _time),
        eta_ms=_field(body, "eta_ms", _time),
        n_all_mean=_field(body, "n_all_mean", _row),
        n_all_given=_field(body, "n_all_given", _rows),
        temperatures=_field(body, "temperatures", lambda v: _row(v, _positive)),
        data=_field(body, "data", dict),
    )
    _check(profile)
    for name, cost in profile.cost.items():
        _check_cost(name, cost, profile.draft_ms)
    return profile


def _field(body: Mapping[str, Any], name: str, read: Callable[[Any], T]) -> T:
    """A field as `read` takes it; what it objects to is said with the field's name."""
    value = body[name]
    try:
        return read(value)
    except (TypeError, ValueError, AttributeError, OverflowError) as error:
        raise ValueError(f"{name}: {error}") from None


def _costs(values: Any) -> dict[str, Cost]:
    return {str(name): _field(values, name, _cost) for name in values}


def _cost(body: dict[str, Any]) -> Cost:
    a, b, c = _field(body, "quadratic", _row)
    return Cost(
        _field(body, "ms", lambda v: {int(w): _positive(ms) for w, ms in v.items()}),
        (a, b, c),
        _field(body, "fixed_ms", _time),
        _field(body, "plain_ms", _positive),
        _field(body, "rho", _positive),
        _field(body, "static", _integer),
        _field(body, "drafts", _integer),
    )


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) <= MOST:
        raise ValueError(f"a finite number was expected, not {str(value)[:40]!r}")
    return float(value)


def _time(value: Any) -> float:
    if _number(value) < 0:
        raise ValueError(f"a number from 0 was expected, not {value}")
    return float(value)


def _positive(value: Any) -> float:
    if _number(value) <= 0:
        raise ValueError(f"a positive number was expected, not {value}")
    return float(value)


def _integer(value: Any) -> int:
    if type(value) is not int:
        raise ValueError(f"an integer was expected, not {str(value)[:40]!r}")
    return value


def _row(values: Any, read: Callable[[Any], float] = _number) -> tuple[float, ...]:
    if not isinstance(values, list):
        raise ValueError(f"a list of numbers was expected, not {str(values)[:40]!r}")
    return tuple(read(v) for v in values)


def _rows(values: Any) -> tuple[tuple[float, ...], ...]:
    return tuple(_row(v) for v in list(values))


def _check(profile: Profile) -> None:
    """Shapes that belong together."""
    if len(profile.weights) != len(TERMS):
        raise ValueError(f"weights has {len(profile.weights)} numbers, not {len(TERMS)}")
    _check_curves(profile)
    drafts = len(profile.curves_x)
    for name in ("temperatures", "draft_ms"):
        if len(getattr(profile, name)) != drafts:
            raise ValueError(f"{name} has not one number a draft")
    if {len(profile.n_all_mean), len(profile.n_all_given)} != {drafts + 1}:
        raise ValueError("n_all_mean and n_all_given have not one row a target input")
    widths = {len(row) for row in profile.n_all_given}
    if len(widths) != 1:
        raise ValueError("n_all_given has rows of different lengths")
    if min(widths) < 2:  # none and one new expert at least
        raise ValueError("n_all_given has rows of fewer than 2 numbers")
    if not profile.cost:
        raise ValueError("cost names no runtime")


def _check_curves(profile: Profile) -> None:
    """Knots in pairs, of probabilities, none lower than the one before it."""
    every = {"curves_x": profile.curves_x, "curves_y": profile.curves_y}
    if not profile.curves_x or [*map(len, profile.curves_x)] != [*map(len, profile.curves_y)]:
        raise ValueError("curves_x and curves_y have different lengths, or no curve")
    for name, rows in every.items():
        if not all(rows):
            raise ValueError(f"{name} has a curve without knots")
        if any(list(row) != sorted(row) for row in rows):
            raise ValueError(f"{name} has a curve that falls")
        if any(row[0] < 0 or row[-1] > 1 + ROUNDING for row in rows):
            raise ValueError(f"{name} has a value outside 0 to 1")


def _check_cost(name: str, cost: Cost, draft_ms: tuple[float, ...]) -> None:
    """Lengths and drafts of this block, and rounds that take time."""
    longest = len(draft_ms) + 1
    if not cost.ms or not all(1 <= w <= longest for w in cost.ms):
        raise ValueError(f"{name}: ms has no length, or one outside 1 to {longest}")
    if not 2 <= cost.static <= longest:
        raise ValueError(f"{name}: static is {cost.static}, not a length from 2 to {longest}")
    if not 1 <= cost.drafts < longest:
        raise ValueError(f"{name}: drafts is {cost.drafts}, not a number from 1 to {longest - 1}")
    curve, least = cost.round_curve(longest)[2:], cost.target_curve(longest)[2:]
    own = least + torch.tensor(draft_ms, dtype=least.dtype)  # no more drafts than are verified
    good = (torch.minimum(curve, own) > 0) & torch.isfinite(curve)
    if not good.all():
        w = int(good.long().argmin()) + 2
        raise ValueError(f"{name}: by quadratic, a round of length {w} takes {curve[w - 2]:g} ms")


def check_belongs(profile: Profile, pair: Mapping[str, str], runtime: Runtime, path: Path) -> None:
    """Refuse a profile of another pair or another runtime.

    Raises:
        ProfileError: names what differs, and the command that makes a right one.
    """
    remedy = "Make one for it with `hybridspec calibrate`."
    for part, digest in pair.items():
        if profile.pair.get(part) != digest:
            raise ProfileError(
                f"The profile {path} was made for another {part} (sha256 "
                f"{profile.pair.get(part, '')[:12]}..., this one is {digest[:12]}...). {remedy}"
            )
    for name in ("device", "dtype"):
        if profile.runtime.get(name) != runtime[name]:
            raise ProfileError(
                f"The profile {path} was made on the {name} {profile.runtime.get(name)!r}; this "
                f"is {runtime[name]!r}. {remedy}"
            )
