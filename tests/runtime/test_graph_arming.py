"""The kernels that arm conditional nodes compile for every architecture."""

from __future__ import annotations

import ctypes
import re

import pytest
import torch

from hybridspec.kernels.cuda import Kernel, KernelError, Source, Wide, _passed, compile_source
from hybridspec.runtime.graph import arming

SOURCES = {
    (arming.__package__, "arm.cu"): (b"switch_node", b"loop_node"),
    ("hybridspec.kernels.bench", "graphs.cu"): (b"choose", b"count"),
}


@pytest.mark.parametrize("architecture", [80, 86, 89, 90, 120])
@pytest.mark.parametrize("source", SOURCES, ids=lambda source: source[1])
def test_they_compile_and_leave_the_function_to_the_driver(source, architecture):
    made = compile_source(Source.read(*source), architecture, {})
    assert set(re.findall(r"(\d+) bytes spill", made.log)) == {"0"}
    assert all(name in made.cubin for name in (*SOURCES[source], b"cudaGraphSetConditional"))


def test_a_handle_goes_as_64_bits():
    value, kind = _passed(Wide(2**63 + 5))
    assert ctypes.sizeof(kind) == 8
    assert kind(value).value == 2**63 + 5
    assert type(value) is int
    assert ctypes.sizeof(_passed(5)[1]) == 4


def test_conditions_on_a_cpu_are_refused():
    kernel = Kernel(None, 1)
    zero = torch.tensor(0, dtype=torch.int32)
    with pytest.raises(KernelError, match="are on cpu; expected one CUDA device"):
        arming.Arming(kernel, kernel).loop(1, zero)
