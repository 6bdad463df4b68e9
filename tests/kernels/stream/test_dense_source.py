"""The streaming product compiles in all its forms, for every architecture, without spills."""

from __future__ import annotations

import itertools
import re

import pytest

from hybridspec.kernels.cuda import Source, compile_source
from hybridspec.kernels.stream import config, dense

ARCHITECTURES = (80, 86, 89, 90, 120)
FORMS = {
    "joint": dense.sizes(2048, dense.ROW, ends=False, wide=False),
    "router": dense.sizes(3072, dense.ROW, ends=False, wide=True),
    "gated": dense.sizes(4096, dense.HEADS, ends=True, wide=False, parts=4),
    "gated, 122b": dense.sizes(8192, dense.HEADS, ends=True, wide=False, parts=4),
    "joint, four steps": dense.sizes(2048, dense.ROW, ends=False, wide=False, deep=4),
    "out": dense.sizes(4096, dense.NONE, ends=True, wide=False),
    "drafter's up": dense.sizes(2048, dense.ROW, ends=False, wide=False, paired=True),
    "drafter's fc": dense.sizes(16384, dense.NONE, ends=True, wide=False),
    "drafter's down": dense.sizes(6144, dense.NONE, ends=True, wide=False),
}
# Every form for 9.0 and one for each other kind of card; the rest repeats these.
FEW = {*((name, 90) for name in FORMS), ("joint", 80), ("joint", 120)}


@pytest.mark.parametrize(
    ("name", "architecture"),
    [
        pytest.param(*case, marks=() if case in FEW else pytest.mark.full)
        for case in itertools.product(FORMS, ARCHITECTURES)
    ],
)
def test_it_compiles_without_spills_within_its_memory(name, architecture):
    source = Source.read(dense.__package__, "dense.cu")
    made = compile_source(source, architecture, dict(FORMS[name]), anew=True)
    assert set(re.findall(r"(\d+) bytes spill", made.log)) == {"0"}
    assert max(map(int, re.findall(r"(\d+) bytes smem", made.log))) <= config.STATIC
