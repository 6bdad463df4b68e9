"""What the two kinds of `config.json` share: the kind of model, rotary embedding, layer pattern.

What the engine does not compute is refused by name: a value that is read over in silence would
change what the model says.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from hybridspec.checkpoint.fields import Fields, agreed
from hybridspec.errors import CheckpointError
from hybridspec.jsonfile import read_json


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of model that can be loaded: its role here and how `config.json` declares it."""

    role: str
    architectures: tuple[str, ...]
    model_types: tuple[str, ...]


def open_config(folder: Path, kind: Kind) -> Fields:
    """Opens `folder/config.json`.

    Raises:
        CheckpointError: no such file, another kind of model, or a quantised one.
    """
    path = folder / "config.json"
    if not path.is_file():
        raise CheckpointError(
            f"{folder} is not a checkpoint: it has no config.json. Expected a Hugging Face "
            "checkpoint folder with config.json and *.safetensors files."
        )
    fields = Fields(read_json(path), str(path))
    found = fields.get("architectures") or []
    named = [str(name) for name in found] if isinstance(found, list) else [str(found)]
    model_type = fields.get("model_type")
    if not set(named) & set(kind.architectures) or model_type not in kind.model_types:
        raise CheckpointError(
            f"{path} declares architecture {', '.join(named) or 'none'} (model_type {model_type}), "
            f"which is not supported as a {kind.role}; expected {' or '.join(kind.architectures)} "
            f"(model_type {' or '.join(kind.model_types)})."
        )
    refuse_quantized(fields)
    return fields


def refuse_quantized(fields: Fields) -> None:
    """Refuses quantised weights by the name of their method."""
    if "quantization_config" in fields:
        method = fields.section("quantization_config").get("quant_method")
        raise CheckpointError(
            f"{fields.where}: quantization_config with quant_method {method!r} is not supported "
            "yet; use the unquantised checkpoint (BF16, F16, F32 or F64 weights)."
        )


def read_rope(fields: Fields) -> tuple[float, float | None]:
    """(theta, rotated share of each head if the file names it), from any place it may stand in.

    Raises:
        CheckpointError: scaled RoPE (yarn and others), two places that differ, or no theta.
    """
    params, scaling = fields.section("rope_parameters"), fields.section("rope_scaling")
    for place in (params, scaling):
        for name in ("rope_type", "type"):
            if place.get(name) not in (None, "default"):
                factor = f" with factor {place.get('factor')}" if "factor" in place else ""
                raise CheckpointError(
                    f"{place.where}: {name} is {place.get(name)!r}{factor}; only 'default' is "
                    "supported. Use a checkpoint without RoPE scaling."
                )
    places = (params, scaling, fields)
    share = agreed("partial_rotary_factor", places)
    partial = share.number("partial_rotary_factor") if "partial_rotary_factor" in share else None
    return agreed("rope_theta", places).number("rope_theta"), partial


def read_layer_types(fields: Fields, known: Sequence[str]) -> tuple[str, ...] | None:
    """`layer_types`, checked against `num_hidden_layers` and the known names; None when absent."""
    listed = fields.get("layer_types")
    if listed is None:
        return None
    if not isinstance(listed, list) or not listed or any(name not in known for name in listed):
        raise fields.problem("layer_types", f"a list of {' and '.join(known)}")
    count = fields.integer("num_hidden_layers", len(listed))
    if count != len(listed):
        raise CheckpointError(
            f"{fields.where}: layer_types lists {len(listed)} layers but num_hidden_layers is "
            f"{count}; expected the same number."
        )
    return tuple(listed)


def require_multiple(fields: Fields, whole: str, part: str) -> None:
    """Refuses head counts that do not divide."""
    if fields.integer(whole) % fields.integer(part):
        raise fields.problem(whole, f"a multiple of {part}, which is {fields.integer(part)}")
