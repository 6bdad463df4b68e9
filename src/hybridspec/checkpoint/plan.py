"""Which tensor fills which slot, settled from names and shapes before any weight is read.

Every tensor that is not skipped by name is used exactly once and every slot is filled; anything
else is an error here, so a checkpoint that does not fit costs no more than reading its headers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from torch import Tensor

from hybridspec.checkpoint.header import DTYPES, Entry, Shard
from hybridspec.checkpoint.names import Place, Placer
from hybridspec.checkpoint.wording import first_few
from hybridspec.errors import CheckpointError

HEAD, EMBEDDING = Place("lm_head.weight"), Place("embed_tokens.weight")


@dataclass(frozen=True, slots=True)
class Move:
    """One tensor of a file and the place it fills."""

    path: Path
    entry: Entry
    place: Place


@dataclass(frozen=True, slots=True)
class Plan:
    """All moves of a checkpoint, in the order of its files.

    Attributes:
        moves: one entry a tensor.
        spare_head: a head that is in the files although the model's head is its embedding; it
            fills no slot and must equal the embedding.
    """

    moves: tuple[Move, ...]
    spare_head: Move | None = None

    @property
    def nbytes(self) -> int:
        """Bytes that will be read from the files."""
        return sum(move.entry.nbytes for move in self.moves)


def make_plan(
    shards: Sequence[Shard], slots: Mapping[str, Tensor], placer: Placer, folder: Path
) -> Plan:
    """Pairs the tensors of `shards` with `slots`, which may be on the meta device.

    Raises:
        CheckpointError: a tensor too many, too few, of another shape or dtype, or two for a place.
    """
    moves = [
        Move(shard.path, entry, place)
        for shard in shards
        for entry in shard.entries
        if (place := placer(entry.name)) is not None
    ]
    head = None
    if HEAD.slot not in slots and EMBEDDING.slot in slots:
        head = next((move for move in moves if move.place == HEAD), None)
    plan = Plan(tuple(move for move in moves if move is not head), head)
    _check_places(plan.moves, slots, folder)
    for move in moves:
        _check_dtype(move)
        _check_shape(move, EMBEDDING if move is head else move.place, slots)
    return plan


def _check_places(moves: Sequence[Move], slots: Mapping[str, Tensor], folder: Path) -> None:
    """Each place once, no place outside the slots, no slot left open."""
    filled: dict[Place, str] = {}
    for move in moves:
        if move.place in filled:
            raise CheckpointError(
                f"{folder}: {filled[move.place]} and {move.entry.name} both fill {move.place}; "
                "expected one tensor each."
            )
        filled[move.place] = move.entry.name
    wanted = _wanted(slots, filled)
    extra = [name for place, name in filled.items() if place not in wanted]
    missing = [str(place) for place in wanted if place not in filled]
    problems = []
    if extra:
        problems.append(f"{len(extra)} tensors have no place in the model ({first_few(extra)})")
    if missing:
        problems.append(f"{len(missing)} tensors are missing ({first_few(missing)})")
    if problems:
        raise CheckpointError(
            f"{folder} does not fit its config.json: {' and '.join(problems)}. "
            "Expected exactly the tensors that config.json describes."
        )


def _wanted(slots: Mapping[str, Tensor], filled: Mapping[Place, str]) -> dict[Place, None]:
    """The places to fill, in the order of the slots: an expert stack whole or one by one."""
    by_expert = {place.slot for place in filled if place.expert is not None}
    wanted: dict[Place, None] = {}
    for name, slot in slots.items():
        if name in by_expert and Place(name) not in filled:
            wanted |= dict.fromkeys(_expert_places(name, slot.shape[0]))
        else:
            wanted[Place(name)] = None
    return wanted


def _expert_places(slot: str, experts: int) -> list[Place]:
    if slot.endswith(".down_proj"):
        return [Place(slot, expert) for expert in range(experts)]
    return [
        place
        for expert in range(experts)
        for place in (Place(slot, expert, "gate"), Place(slot, expert, "up"))
    ]


def _check_dtype(move: Move) -> None:
    if move.entry.dtype not in DTYPES:
        raise CheckpointError(
            f"{move.path}: {move.entry.name} has dtype {move.entry.dtype}, which is not "
            f"supported; expected {', '.join(DTYPES)}."
        )


def _check_shape(move: Move, place: Place, slots: Mapping[str, Tensor]) -> None:
    expected = tuple(place.view(slots).shape)
    if move.entry.shape != expected:
        raise CheckpointError(
            f"{move.path}: {move.entry.name} has shape {list(move.entry.shape)}; expected "
            f"{list(expected)} from config.json."
        )
