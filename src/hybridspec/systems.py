"""The decoding systems by name: each is a length policy and a GDN verifier, nothing more.

Those that need a calibration profile are in `catalogue.py`.
"""

from __future__ import annotations

from dataclasses import dataclass

from hybridspec.catalogue import CATALOGUE, build
from hybridspec.errors import OptionError, RequestError
from hybridspec.model.gdn import VERIFY, Verifier
from hybridspec.policy.baselines import CascadePolicy, EmaPolicy
from hybridspec.policy.length import FixedLength, LengthPolicy
from hybridspec.policy.profile import Profile
from hybridspec.runtime.state import W

KNOWN = (
    "ar (plain decoding), dflash (the whole block), static:W (W inputs a round), "
    "static:W:VERIFIER, length16, replayssm, ema, cascade; and with a calibration profile "
    f"{', '.join(CATALOGUE)}, each also with a GDN verifier last (hybridspec:per-token)"
)


@dataclass(frozen=True, slots=True)
class System:
    """A way to decode. All systems give the same tokens; they differ in speed."""

    name: str
    policy: LengthPolicy
    verifier: Verifier

    def __repr__(self) -> str:
        """Short, for messages."""
        return f"<System {self.name}>"

    @property
    def drafts(self) -> bool:
        """Whether it needs a drafter."""
        return self.policy.longest > 1


def parse_system(name: str, block_size: int | None, profile: Profile | None = None) -> System:
    """The system called NAME[:ARG], anew with every call: one that learns knows nothing yet.

    Args:
        name: see KNOWN.
        block_size: the drafter's, the anchor included; None when there is no drafter.
        profile: for the systems of `catalogue.py`.

    Raises:
        RequestError: an unknown name, an argument out of range, or no drafter or no profile for a
            system that needs one.
    """
    if not isinstance(name, str):
        raise OptionError("system", f"is {name!r}; expected the name of one of: {KNOWN}.")
    system = System(name, *_parts(name, block_size, profile))
    if system.drafts and block_size is None:
        raise RequestError(
            f"The system {name!r} needs a drafter and none is loaded. Name one (draft, --draft), "
            "or use the system ar."
        )
    return system


def check_system(system: System) -> System:
    """A system of the user's own, as far as it can be judged before it runs.

    Raises:
        OptionError: no verifier of ours, or a policy without a length from 1 to W.
    """
    if system.verifier not in VERIFY:
        raise OptionError(
            "system", f"has the verifier {system.verifier!r}; expected one of {', '.join(VERIFY)}."
        )
    longest = getattr(system.policy, "longest", None)
    if not isinstance(longest, int) or isinstance(longest, bool) or not 1 <= longest <= W:
        raise OptionError(
            "system",
            f"has a policy whose longest length is {longest!r}; expected an integer from 1 to {W}.",
        )
    return system


def _parts(
    name: str, block_size: int | None, profile: Profile | None
) -> tuple[LengthPolicy, Verifier]:
    """Policy and verifier of a name."""
    kind, colon, argument = name.partition(":")
    block = block_size or 16
    if kind == "static" and (colon or profile is None):
        length, named, verifier = argument.partition(":")
        return FixedLength(_length(length, block_size)), _verifier(name, verifier, named)
    if kind in CATALOGUE:
        if profile is None:
            raise RequestError(
                f"The system {name!r} needs a calibration profile and none is loaded (the embedded "
                "pair's own is for float32 on a CPU). Make one with `hybridspec calibrate` and "
                "name it (profile, --profile)."
            )
        return build(name, profile, block)
    simple: dict[str, tuple[LengthPolicy, Verifier]] = {
        "ar": (FixedLength(1), "exact"),
        "dflash": (FixedLength(block), "per-token"),
        "length16": (FixedLength(block), "exact"),
        "replayssm": (FixedLength(block), "replay"),
        "ema": (EmaPolicy(), "exact"),
        "cascade": (CascadePolicy(), "exact"),
    }
    if name not in simple:
        raise RequestError(f"The system {name!r} is unknown; expected one of: {KNOWN}.")
    return simple[name]


def _verifier(name: str, verifier: str, named: str) -> Verifier:
    for known in VERIFY:
        if (verifier if named else "exact") == known:
            return known
    raise RequestError(
        f"The system {name!r} names the GDN verifier {verifier!r}; expected one of: "
        f"{', '.join(VERIFY)}."
    )


def _length(argument: str, block_size: int | None) -> int:
    longest = block_size or 16
    lengths = {str(w): w for w in range(1, longest + 1)}
    if argument in lengths:
        return lengths[argument]
    raise RequestError(
        f"static takes a number of target inputs from 1 to {longest} after a colon, such as "
        f"static:5; got {argument!r}."
    )
