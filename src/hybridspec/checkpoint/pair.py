"""Whether a drafter was made for a target."""

from __future__ import annotations

from collections.abc import Sequence

from hybridspec.checkpoint.header import Shard
from hybridspec.checkpoint.names import Place, place_drafter
from hybridspec.errors import CheckpointError
from hybridspec.model.config import DrafterConfig, TargetConfig
from hybridspec.runtime.state import W

FEATURES = Place("fc.weight")


def check_pair(target: TargetConfig, drafter: DrafterConfig) -> None:
    """Refuses a pair that does not fit, naming the values of both sides.

    Raises:
        CheckpointError: hidden size, vocabulary, number of layers, tapped layers, mask id or block
            size do not agree.
    """
    sizes = (
        ("hidden_size", drafter.hidden_size, "hidden_size", target.hidden_size),
        ("vocab_size", drafter.vocab_size, "vocab_size", target.vocab_size),
        (
            "num_target_layers",
            drafter.num_target_layers,
            "num_hidden_layers",
            target.num_hidden_layers,
        ),
    )
    problems = [
        f"the drafter's {name} is {wanted} and the target's {own} is {found}"
        for name, wanted, own, found in sizes
        if wanted != found
    ]
    problems += _tap_problems(target, drafter) + _block_problems(target, drafter)
    if problems:
        raise CheckpointError(
            f"The drafter does not fit the target: {'; '.join(problems)}. "
            "Use the drafter that was made for this target."
        )


def _tap_problems(target: TargetConfig, drafter: DrafterConfig) -> list[str]:
    taps, last = list(drafter.target_layer_ids), target.num_hidden_layers - 1
    problems = []
    if any(tap > last for tap in taps):
        problems.append(f"the drafter taps layers {taps} and the target's last layer is {last}")
    # Features are joined in the order in which the target computes them.
    if taps != sorted(set(taps)):
        problems.append(f"the drafter taps layers {taps}, not each once in the target's order")
    return problems


def _block_problems(target: TargetConfig, drafter: DrafterConfig) -> list[str]:
    problems = []
    if not 0 <= drafter.mask_token_id < target.vocab_size:
        problems.append(
            f"the drafter's mask_token_id is {drafter.mask_token_id} and the target's vocabulary "
            f"ends at {target.vocab_size - 1}"
        )
    if not 2 <= drafter.block_size <= W:
        problems.append(
            f"the drafter's block_size is {drafter.block_size} and the target verifies 2 to {W} "
            "inputs, the anchor and the drafts"
        )
    return problems


def check_features(drafter: DrafterConfig, shards: Sequence[Shard]) -> None:
    """Refuses a drafter whose feature projection was made for another number of tapped layers.

    A missing `fc.weight` is left to the loader.

    Raises:
        CheckpointError: the width of `fc.weight` is not the tapped layers times the hidden size.
    """
    taps, hidden = len(drafter.target_layer_ids), drafter.hidden_size
    for shard in shards:
        for entry in shard.entries:
            if place_drafter(entry.name) == FEATURES and entry.shape[-1:] != (taps * hidden,):
                raise CheckpointError(
                    f"{shard.path}: {entry.name} has shape {list(entry.shape)} but config.json "
                    f"taps {taps} layers of hidden size {hidden}; expected {taps * hidden} columns."
                )
