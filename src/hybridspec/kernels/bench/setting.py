"""What a run of the kernels' bench is about: a model's shape, a device, a clock."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import Tensor

from hybridspec.kernels.bench.clock import Clock
from hybridspec.model.config import TargetConfig

EPS = 1e-6
ROTATED = 220e6  # bytes of weights that calls in a row read: several times any second-level cache
Call = Callable[[], None]
C = TypeVar("C")


@dataclass(frozen=True, slots=True)
class Shape:
    """The sizes that kernels see."""

    hidden: int
    key_heads: int
    value_heads: int
    dk: int
    dv: int
    experts: int
    top: int
    width: int
    shared: int
    vocabulary: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    distinct: tuple[int, ...]  # U to time

    @property
    def channels(self) -> int:
        """C of the convolution."""
        return 2 * self.key_heads * self.dk + self.value_heads * self.dv

    @property
    def joint(self) -> int:
        """Rows of the joint GDN projection."""
        return self.channels + self.value_heads * (self.dv + 2)

    def target(self) -> TargetConfig:
        """The whole model: every fourth layer is one of attention."""
        kinds = ("linear_attention",) * 3 + ("full_attention",)
        return TargetConfig(
            vocab_size=self.vocabulary, hidden_size=self.hidden,
            layer_types=(kinds * self.layers)[: self.layers], num_attention_heads=self.heads,
            num_key_value_heads=self.kv_heads, head_dim=self.head_dim,
            linear_num_key_heads=self.key_heads, linear_num_value_heads=self.value_heads,
            linear_key_head_dim=self.dk, linear_value_head_dim=self.dv, num_experts=self.experts,
            num_experts_per_tok=self.top, moe_intermediate_size=self.width,
            shared_expert_intermediate_size=self.shared, rms_norm_eps=EPS,
        )  # fmt: skip

    def mixer(self) -> TargetConfig:
        """For one GDN mixer, at a small hidden size: its projections are not run."""
        return replace(self.target(), hidden_size=1)


SHAPES = {
    "35b": Shape(
        2048, 16, 32, 128, 128, 256, 8, 512, 512, 248320, 40, 16, 2, 256, (8, 25, 50, 100)
    ),
    # small enough for the interpreter: it shows that the bench itself works
    "small": Shape(64, 2, 4, 32, 32, 12, 2, 16, 24, 96, 4, 2, 1, 32, (2, 5)),
}


@dataclass
class Setting:
    """One run: where, what and what was found. Records are dictionaries of plain values."""

    shape: Shape
    device: torch.device
    dtype: torch.dtype
    clock: Clock
    early: bool
    defaults: bool = False  # time each kernel's default cut alone
    copied: float | None = None  # bytes a second of a copy, read and written
    records: list[dict[str, Any]] = field(default_factory=list)
    peers: Path | None = None  # folder of the peers' kernels
    part: str = ""  # that is running
    first: dict[tuple[str, str], dict[str, Any]] = field(default_factory=dict)  # in a second sweep
    generator: torch.Generator = field(init=False)

    def __post_init__(self) -> None:
        self.generator = torch.Generator(self.device).manual_seed(0)

    @property
    def options(self) -> dict[str, bool]:
        """Keywords of a wrapper."""
        return {"early": self.early}

    def normal(self, *shape: int, dtype: torch.dtype | None = None, size: float = 1.0) -> Tensor:
        """Random numbers of standard deviation `size`, of the weights' dtype by default."""
        made = torch.empty(shape, dtype=dtype or self.dtype, device=self.device)
        return made.normal_(0.0, size, generator=self.generator)

    def weight(self, *shape: int) -> Tensor:
        """A weight that keeps the size of what it multiplies."""
        return self.normal(*shape, size=shape[-1] ** -0.5)

    def empty(self, *shape: int, dtype: torch.dtype | None = None) -> Tensor:
        """Memory of the weights' dtype by default, zero so that unused rows stay finite."""
        return torch.zeros(shape, dtype=dtype or self.dtype, device=self.device)

    def scalar(self, value: int) -> Tensor:
        """A length on the device."""
        return torch.tensor(value, dtype=torch.int32, device=self.device)

    def cuts(self, candidates: Sequence[C]) -> Sequence[C]:
        """The cuts to sweep beside the default: none without a GPU or if defaults are all."""
        return candidates if self.device.type == "cuda" and not self.defaults else ()

    def copies(self, nbytes: float) -> int:
        """How many weights of so many bytes take turns."""
        return max(1, min(256, int(ROTATED // nbytes) + 1)) if self.device.type == "cuda" else 1

    def timed(self, name: str, config: object, calls: Sequence[Call], nbytes: float) -> float:
        """Time calls in a row, each of which reads `nbytes`, and keep the record; microseconds."""
        return self.took(name, config, self.clock(calls), nbytes)

    def took(self, name: str, config: object, us: float, nbytes: float) -> float:
        """Keep the record of a time measured otherwise; the time."""
        record = {"name": name, "config": str(config), "us": round(us, 2), "bytes": int(nbytes)}
        record["tb_s"] = round(nbytes / us / 1e6, 3)
        if self.copied:
            record["of_copy"] = round(nbytes / us * 1e6 / self.copied, 3)
        self.keep(record)
        return us

    def keep(self, record: dict[str, Any]) -> None:
        """Keep a record and show it; in a second sweep its time goes to the first one's."""
        first = self.first.get((record["name"], record.get("config", "")))
        if first is None:
            self.records.append({"part": self.part} | record)
        elif "us" in record and "us" in first:
            first["us_again"] = record["us"]
            first["spread"] = round(abs(record["us"] / first["us"] - 1), 4)
        print("  ".join(f"{k} {v}" for k, v in record.items()), flush=True)
