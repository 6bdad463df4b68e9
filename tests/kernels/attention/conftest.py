"""Where kernels are interpreted, a product adds up in one order for every element of its result:
numpy's may take another at another place of the tile, and bits are compared here."""

from __future__ import annotations

import numpy as np
import pytest


def _dot(self, a, b, d, input_precision, max_num_imprecise_acc):
    from triton.runtime.interpreter import TensorHandle

    total = np.zeros(d.data.shape, d.data.dtype)
    for left, right in zip(a.data.T, b.data, strict=True):
        total += left[:, None] * right
    return TensorHandle(total + d.data, d.dtype.scalar)


@pytest.fixture(autouse=True)
def _one_order(device, monkeypatch):
    if device.type == "cpu":
        from triton.runtime.interpreter import InterpreterBuilder

        monkeypatch.setattr(InterpreterBuilder, "create_dot", _dot)
