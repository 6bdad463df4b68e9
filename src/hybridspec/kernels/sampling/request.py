"""What a request asks of the sampler, in device memory, and the sampler's own memory."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from hybridspec.core import SamplingParams
from hybridspec.kernels.linear.config import ROWS
from hybridspec.kernels.sampling.config import SampleConfig


class Request(NamedTuple):
    """seed [] int64, its 64 bits. position [] int64, of the token that row 0 predicts; row i is i
    further. params [4] fp64: temperature, top_k, top_p, min_p."""

    seed: Tensor
    position: Tensor
    params: Tensor

    @classmethod
    def empty(cls, device: torch.device | str) -> Request:
        """Memory for a request."""
        whole = {"dtype": torch.int64, "device": device}
        return cls(
            torch.zeros((), **whole), torch.zeros((), **whole),
            torch.zeros(4, dtype=torch.float64, device=device),
        )  # fmt: skip

    def set(self, params: SamplingParams, seed: int, position: int) -> None:
        """Write a request into this memory, from the host."""
        self.seed.fill_(seed - (1 << 64) if seed >> 63 else seed)
        self.position.fill_(position)
        values = (params.temperature, params.top_k, params.top_p, params.min_p)
        self.params.copy_(torch.tensor(values, dtype=torch.float64))


class Scratch(NamedTuple):
    """What the two kernels leave for each other and for the last of their programs.

    By row and chunk: tops [16, C] int64, the largest logit and its id; groups [16, G] fp32, maxima;
    sums [16, C] int64 of masses. By row: peak [16] fp32; floor [16] int64; arrived and count [16]
    int32, zero between kernels. The list: values [16, V] fp32 and ids [16, V] int32.
    """

    tops: Tensor
    groups: Tensor
    sums: Tensor
    peak: Tensor
    floor: Tensor
    arrived: Tensor
    count: Tensor
    values: Tensor
    ids: Tensor

    @classmethod
    def empty(
        cls, vocabulary: int, device: torch.device | str, config: SampleConfig | None = None
    ) -> Scratch:
        """Memory for a vocabulary: 32 MB for one of 248,320."""
        c = config or SampleConfig.choose(vocabulary)
        chunks = c.chunks(vocabulary)

        def make(dtype: torch.dtype, *shape: int) -> Tensor:
            return torch.zeros(ROWS, *shape, dtype=dtype, device=device)

        return cls(
            make(torch.int64, chunks), make(torch.float32, chunks * c.chunk // c.group),
            make(torch.int64, chunks), make(torch.float32), make(torch.int64), make(torch.int32),
            make(torch.int32), make(torch.float32, vocabulary), make(torch.int32, vocabulary),
        )  # fmt: skip
