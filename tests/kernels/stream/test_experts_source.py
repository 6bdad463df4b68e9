"""The streaming experts compile for every architecture, without spills, at two models' sizes."""

from __future__ import annotations

import itertools
import re

import pytest
import torch

from hybridspec.kernels.cuda import Source, compile_source
from hybridspec.kernels.moe.naive import Weights
from hybridspec.kernels.stream import config, experts

ARCHITECTURES = (80, 86, 89, 90, 120)
SHAPES = {"35b": (2048, 256, 512, 512), "122b": (3072, 256, 1024, 1024)}
FEW = {("35b", 80), ("35b", 90), ("35b", 120)}
PLACES = 128  # 16 tokens of 8 experts


def weights(hidden: int, count: int, width: int, shared: int) -> Weights:
    shapes = [
        (count + 1, hidden), (count, 2 * width, hidden), (count, hidden, width),
        (2 * shared, hidden), (hidden, shared),
    ]  # fmt: skip
    return Weights(*(torch.empty(*shape, device="meta") for shape in shapes))


@pytest.mark.parametrize(
    ("shape", "architecture"),
    [
        pytest.param(*case, marks=() if case in FEW else pytest.mark.full)
        for case in itertools.product(SHAPES, ARCHITECTURES)
    ],
)
def test_they_compile_without_spills_within_their_memory(shape, architecture):
    macros = dict(experts.sizes(weights(*SHAPES[shape]), 8, PLACES))
    source = Source.read(experts.__package__, "experts.cu")
    made = compile_source(source, architecture, macros, anew=True)
    assert set(re.findall(r"(\d+) bytes spill", made.log)) == {"0"}
    assert max(map(int, re.findall(r"(\d+) bytes smem", made.log))) <= config.STATIC
