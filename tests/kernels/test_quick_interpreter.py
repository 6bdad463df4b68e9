"""The interpreter that the tests have quickened still refuses what the original one refuses."""

from __future__ import annotations

import pytest
import torch
import triton
import triton.language as tl
from triton.runtime.errors import InterpreterError

interpreted = pytest.mark.skipif(torch.cuda.is_available(), reason="a GPU interprets nothing")


@triton.jit
def _two(x, y, out, kind: tl.constexpr):
    a, b = tl.load(x + tl.arange(0, 2)), tl.load(y + tl.arange(0, 2))
    if kind == "add":
        c = a + b
    elif kind == "sub":
        c = a - b
    else:
        c = a * b
    tl.store(out + tl.arange(0, 2), c)


@interpreted
@pytest.mark.parametrize(
    ("kind", "x", "y", "result"),
    [
        ("add", 2**31 - 2, 1, 2**31 - 1),
        ("sub", -(2**31), 0, -(2**31)),
        ("mul", 2**30, -2, -(2**31)),
    ],
)
def test_integers_that_do_not_fit_are_refused(kind, x, y, result):
    def run(y: int) -> list[int]:
        numbers = [torch.tensor([0, n], dtype=torch.int32) for n in (x, y, 0)]
        _two[(1,)](*numbers, kind)
        return numbers[-1].tolist()

    assert run(y) == [0, result]
    with pytest.raises(InterpreterError, match=f"int32 overflows in {kind}"):
        run(2 if kind == "mul" else y + 1)
