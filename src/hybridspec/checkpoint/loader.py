"""From a checkpoint's files into a model's slots, one piece at a time.

Files are mapped, not read into memory: a piece goes from the page cache straight into its slot on
whatever device that is, with the cast to the slot's dtype. So the anonymous host memory used is
one piece, whatever the size of the checkpoint.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Protocol, TypeVar

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from hybridspec.checkpoint.drafter_config import read_drafter_config
from hybridspec.checkpoint.names import Placer, place_drafter, place_target
from hybridspec.checkpoint.pair import check_features, check_pair
from hybridspec.checkpoint.plan import EMBEDDING, Move, Plan, make_plan
from hybridspec.checkpoint.progress import progress_bar
from hybridspec.checkpoint.shards import open_shards
from hybridspec.checkpoint.source import resolve
from hybridspec.checkpoint.target_config import read_target_config
from hybridspec.errors import CheckpointError, said_by
from hybridspec.memory import is_full
from hybridspec.model.config import TargetConfig
from hybridspec.model.drafter import Drafter
from hybridspec.model.target import Target

PIECE_BYTES = 64 * 2**20
Advance = Callable[[int], None]


class Loadable(Protocol):
    """A model that can be filled."""

    def slots(self) -> dict[str, Tensor]:
        """Views into the model's storage, by checkpoint name without prefix."""

    def prepare(self) -> object:
        """Called once all slots are filled."""


Model = TypeVar("Model", bound=Loadable)


def load_target(
    source: str | Path,
    device: str | torch.device,
    dtype: torch.dtype,
    *,
    revision: str | None = None,
    progress: bool | None = None,
) -> Target:
    """Loads a target.

    Args:
        source: a checkpoint folder or a Hub id `owner/name`.
        device: where the weights go; `meta` checks names, shapes and dtypes only.
        dtype: the compute dtype; the slots that the model keeps in float32 stay so.
        revision: branch, tag or commit of a Hub id.
        progress: show a bar on stderr; None shows it on a terminal only.

    Raises:
        CheckpointError: the checkpoint is missing, damaged, of another kind or does not fit.
    """
    folder = resolve(source, revision)
    config = read_target_config(folder)
    return load_into(
        lambda where: Target(config, device=where, dtype=dtype),
        folder,
        place_target,
        device,
        progress,
    )


def load_drafter(
    source: str | Path,
    target_config: TargetConfig,
    device: str | torch.device,
    dtype: torch.dtype,
    *,
    revision: str | None = None,
    progress: bool | None = None,
) -> Drafter:
    """Loads a drafter for the target of the given configuration. Arguments as `load_target`.

    Raises:
        CheckpointError: as `load_target`, or the drafter was made for another target.
    """
    folder = resolve(source, revision)
    config = read_drafter_config(folder)
    check_pair(target_config, config)
    check_features(config, open_shards(folder))
    return load_into(
        lambda where: Drafter(config, device=where, dtype=dtype),
        folder,
        place_drafter,
        device,
        progress,
    )


def load_into(
    build: Callable[[torch.device], Model],
    folder: Path,
    placer: Placer,
    device: str | torch.device,
    progress: bool | None = None,
) -> Model:
    """Builds a model on `device` and fills it from `folder`.

    The whole plan is checked against a model without storage first; on the meta device that check
    is all there is to do.
    """
    plain = build(torch.device("meta"))
    slots = plain.slots()
    plan = make_plan(open_shards(folder), slots, placer, folder)
    if torch.device(device).type == "meta":
        return plain
    model = _build(build, torch.device(device), sum(slot.nbytes for slot in slots.values()))
    with progress_bar(f"Loading {folder.name}", plan.nbytes, progress) as advance:
        fill(model.slots(), plan, advance)
    model.prepare()
    return model


def _build(build: Callable[[torch.device], Model], device: torch.device, nbytes: int) -> Model:
    try:
        return build(device)
    except RuntimeError as error:
        if not is_full(error):
            raise
        raise CheckpointError(
            f"The weights take {nbytes / 1e9:.1f} GB, more than is free on {device}; free memory "
            "there, or use another device or a smaller dtype."
        ) from None


def fill(slots: Mapping[str, Tensor], plan: Plan, advance: Advance = lambda _: None) -> None:
    """Copies every tensor of the plan into its slot, file by file.

    Raises:
        CheckpointError: a file that cannot be mapped, or a weight that is NaN or infinite.
    """
    for move, tensor in _mapped(plan.moves):
        slot = move.place.view(slots)
        for part, source in zip(_pieces(slot), _pieces(tensor), strict=True):
            part.copy_(source)
            _check_finite(part, source, move)
            advance(source.nbytes)
    if plan.spare_head is not None:
        _check_tied(plan.spare_head, slots[EMBEDDING.slot])


def _mapped(moves: Sequence[Move]) -> Iterator[tuple[Move, Tensor]]:
    """Each move with its tensor in a mapped file; one file is open at a time."""
    for path, group in groupby(moves, key=lambda move: move.path):
        try:
            with safe_open(path, framework="pt") as file:
                for move in group:
                    yield move, file.get_tensor(move.entry.name)
        except SafetensorError as error:
            raise CheckpointError(
                f"{path} is damaged: {said_by(error)}. Download the file again."
            ) from None


def _pieces(tensor: Tensor) -> Iterator[Tensor]:
    """Views of at most about PIECE_BYTES of bfloat16, split along the first dimension.

    The split depends on the shape alone, so a slot and its tensor split alike.
    """
    rows = max(1, PIECE_BYTES // 2 * tensor.shape[0] // max(1, tensor.numel()))
    return iter(torch.split(tensor, rows))


def _check_finite(part: Tensor, source: Tensor, move: Move) -> None:
    """Refuses what is no number, in the file or after the cast: one pass, no copy.

    An accelerator reads its own memory fastest; in host memory the file's tensor is read, since a
    slot may be laid out column by column.
    """
    if _within(source if part.device.type == "cpu" else part, torch.finfo(part.dtype).max):
        return
    where = f"{move.path}: {move.entry.name}"
    if _within(source, torch.finfo(source.dtype).max):
        raise CheckpointError(
            f"{where} holds {move.entry.dtype} values beyond the range of {part.dtype}; "
            "load it with a wider dtype."
        )
    raise CheckpointError(f"{where} holds NaN or infinite values; expected finite weights.")


def _within(tensor: Tensor, limit: float) -> bool:
    """Whether no element is beyond `limit`. NaN reaches both ends and compares false."""
    low, high = torch.stack(torch.aminmax(tensor)).tolist()
    return bool(-limit <= low and high <= limit)


def _check_tied(head: Move, embedding: Tensor) -> None:
    """A head stored beside the embedding it is tied to must be that embedding."""
    for _, tensor in _mapped([head]):
        for part, source in zip(_pieces(embedding), _pieces(tensor), strict=True):
            if not torch.equal(part, source.to(part)):
                raise CheckpointError(
                    f"{head.path}: {head.entry.name} differs from the embedding although "
                    "config.json sets tie_word_embeddings; expected the same values, or "
                    "tie_word_embeddings false."
                )
