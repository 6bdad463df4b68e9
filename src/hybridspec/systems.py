"""The decoding systems by name: each is a length policy and a GDN verifier, nothing more."""

from __future__ import annotations

from dataclasses import dataclass

from hybridspec.errors import OptionError, RequestError
from hybridspec.model.gdn import VERIFY, Verifier
from hybridspec.policy.length import FixedLength, LengthPolicy

KNOWN = (
    "ar (plain decoding), dflash (the whole block), static:W (W inputs a round), "
    "static:W:block (the same on the block verifier)"
)


@dataclass(frozen=True, slots=True)
class System:
    """A way to decode. All systems give the same tokens; they differ in speed."""

    name: str
    policy: LengthPolicy
    verifier: Verifier

    @property
    def drafts(self) -> bool:
        """Whether it needs a drafter."""
        return self.policy.longest > 1


def parse_system(name: str, block_size: int | None) -> System:
    """The system called NAME[:ARG].

    Args:
        name: `ar`, `dflash`, `static:W` or `static:W:VERIFIER`.
        block_size: the drafter's, the anchor included; None when there is no drafter.

    Raises:
        RequestError: an unknown name, a length out of range, or no drafter for a system that
        drafts.
    """
    if not isinstance(name, str):
        raise OptionError("system", f"is {name!r}; expected the name of one of: {KNOWN}.")
    kind, colon, argument = name.partition(":")
    if kind == "static":
        length, named, verifier = argument.partition(":")
        policy = FixedLength(_length(length, block_size))
        system = System(name, policy, _verifier(name, verifier if named else "exact"))
    elif kind == "dflash" and not colon:
        system = System(name, FixedLength(block_size or 2), "exact")
    elif kind == "ar" and not colon:
        system = System(name, FixedLength(1), "exact")
    else:
        raise RequestError(f"The system {name!r} is unknown; expected one of: {KNOWN}.")
    if system.drafts and block_size is None:
        raise RequestError(
            f"The system {name!r} needs a drafter and none is loaded. Name one (draft, --draft), "
            "or use the system ar."
        )
    return system


def _verifier(name: str, verifier: str) -> Verifier:
    for known in VERIFY:
        if verifier == known:
            return known
    raise RequestError(
        f"The system {name!r} names the GDN verifier {verifier!r}; expected exact or block."
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
