"""The memory of one sequence, allocated at once, or a sentence that says what would fit."""

from __future__ import annotations

import torch

from hybridspec.errors import RequestError
from hybridspec.memory import free_bytes, is_full, size
from hybridspec.model.drafter import Drafter
from hybridspec.model.target import Target
from hybridspec.runtime.state import DrafterState, TargetState

States = tuple[TargetState, DrafterState | None]


def states(target: Target, drafter: Drafter | None, context: int, joint: bool | None) -> States:
    """Of `context` tokens, on the target's device.

    Args:
        joint: as of `TargetState`.

    Raises:
        RequestError: there is not so much memory; it names what is asked for and what would fit.
    """
    try:
        return _states(target, drafter, context, joint, target.device)
    except (RuntimeError, MemoryError) as error:
        if not is_full(error):
            raise
    asked, free = nbytes(target, drafter, context, joint), free_bytes(target.device)
    said = (
        f"The memory of one sequence of {context} tokens takes {size(asked)}, more than is free "
        f"on {target.device}"
    )
    if free is not None:
        said += f" ({size(free)})"
        fits = _most(target, drafter, context, joint, free)
        said += f"; about {fits} tokens fit" if fits else "; not even a short one fits"
    raise RequestError(f"{said}. Lower max_context (--max-context), or free memory there.")


def _states(
    target: Target, drafter: Drafter | None, context: int, joint: bool | None, device: torch.device
) -> States:
    own = TargetState(target.config, context, device=device, dtype=target.dtype, joint=joint)
    if drafter is None:
        return own, None
    return own, DrafterState(drafter.config, context, device=device, dtype=target.dtype)


def nbytes(target: Target, drafter: Drafter | None, context: int, joint: bool | None) -> int:
    """What `states` would allocate; the models need no storage."""
    joint = target.device.type == "cuda" if joint is None else joint
    own, draft = _states(target, drafter, context, joint, torch.device("meta"))
    return own.nbytes + (draft.nbytes if draft is not None else 0)


def _most(
    target: Target, drafter: Drafter | None, context: int, joint: bool | None, free: int
) -> int:
    """Tokens whose memory is within `free`, by halves; 0 if there are none."""
    low, high = 0, context
    while high - low > max(1, context // 64):
        middle = (low + high) // 2
        fits = nbytes(target, drafter, middle, joint) <= free
        low, high = (middle, high) if fits else (low, middle)
    return low
