"""A calibration profile: what was fitted to a pair and measured on a runtime, as one JSON file.

A profile speaks of one pair (by its bytes) and one runtime (device, dtype); it is refused for any
other, since its costs and probabilities would be somebody else's.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from math import isfinite
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from hybridspec.errors import HybridSpecError
from hybridspec.policy.acceptance import TERMS, AcceptanceModel, IsotonicCurves
from hybridspec.policy.objective import CorrectionTables

SCHEMA = "hybridspec.profile/1"
MOST_BYTES = 16 << 20
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
        pair={k: str(body["pair"][k]) for k in ("target", "drafter")},
        runtime={str(k): str(v) for k, v in body["runtime"].items()},
        curves_x=_rows(body["curves_x"]),
        curves_y=_rows(body["curves_y"]),
        weights=_row(body["weights"]),
        cost={str(k): _cost(v) for k, v in body["cost"].items()},
        draft_ms=_row(body["draft_ms"]),
        s_ms=_number(body["s_ms"]),
        eta_ms=_number(body["eta_ms"]),
        n_all_mean=_row(body["n_all_mean"]),
        n_all_given=_rows(body["n_all_given"]),
        temperatures=_row(body["temperatures"]),
        data=dict(body["data"]),
    )
    _check(profile)
    return profile


def _cost(body: dict[str, Any]) -> Cost:
    a, b, c = _row(body["quadratic"])
    ms = {int(w): _positive(v) for w, v in body["ms"].items()}
    fixed = _number(body["fixed_ms"])
    plain, rho = _positive(body["plain_ms"]), _positive(body["rho"])
    static, drafts = int(_positive(body["static"])), int(_positive(body["drafts"]))
    return Cost(ms, (a, b, c), fixed, plain, rho, static, drafts)


def _row(values: Any) -> tuple[float, ...]:
    if not isinstance(values, list):
        raise ValueError(f"a list of numbers was expected, not {str(values)[:40]!r}")
    return tuple(_number(v) for v in values)


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not isfinite(value):
        raise ValueError(f"a finite number was expected, not {str(value)[:40]!r}")
    return float(value)


def _positive(value: Any) -> float:
    if _number(value) <= 0:
        raise ValueError(f"a positive number was expected, not {value}")
    return float(value)


def _rows(values: Any) -> tuple[tuple[float, ...], ...]:
    return tuple(_row(v) for v in list(values))


def _check(profile: Profile) -> None:
    """Shapes that belong together."""
    if len(profile.weights) != len(TERMS):
        raise ValueError(f"weights has {len(profile.weights)} numbers, not {len(TERMS)}")
    knots = zip(profile.curves_x, profile.curves_y, strict=True)
    if not profile.curves_x or any(len(x) != len(y) or not x for x, y in knots):
        raise ValueError("curves_x and curves_y have different lengths, or a curve has no knots")
    if not profile.cost or any(c.rho <= 0 for c in profile.cost.values()):
        raise ValueError("cost names no runtime, or a rho is not positive")
    drafts = len(profile.curves_x)
    if len(profile.temperatures) != drafts or min(profile.temperatures) <= 0:
        raise ValueError("temperatures has not one positive number a draft")
    if len(profile.draft_ms) != drafts:
        raise ValueError("draft_ms has not one number a draft")
    if any(not 1 <= c.drafts <= drafts for c in profile.cost.values()):
        raise ValueError("drafts is not a number of drafts")
    if {len(profile.n_all_mean), len(profile.n_all_given)} != {drafts + 1}:
        raise ValueError("n_all_mean and n_all_given have not one row a target input")
    if len({len(row) for row in profile.n_all_given}) != 1:
        raise ValueError("n_all_given has rows of different lengths")
    if any(not 2 <= c.static <= drafts + 1 for c in profile.cost.values()):
        raise ValueError("static is no verification length")
    for row in (*profile.curves_x, *profile.curves_y):
        if list(row) != sorted(row):
            raise ValueError("a curve falls")


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
