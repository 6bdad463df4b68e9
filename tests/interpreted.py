"""What is changed in Triton's interpreter, so that tests speak of our kernels alone."""

from __future__ import annotations

from typing import Any

from triton.runtime.interpreter import InterpreterBuilder, TensorHandle


def products_by_rows() -> None:
    """Products of tiles row by row, as a batch of one-row products. The interpreter leaves them to
    numpy's BLAS, and on some processors a row's bits then depend on where in its tile it stands; a
    tensor core's do not (`tests/gpu/test_streaming_pass.py`), and our kernels' must not."""
    whole = InterpreterBuilder.create_dot

    def by_rows(self: InterpreterBuilder, a: Any, b: Any, d: Any, *rest: Any) -> TensorHandle:
        if a.data.ndim != 2:
            return whole(self, a, b, d, *rest)
        left, added = (TensorHandle(t.data[:, None], t.dtype) for t in (a, d))
        rows = whole(self, left, b, added, *rest).data[:, 0]
        return TensorHandle(rows, d.dtype.scalar)

    InterpreterBuilder.create_dot = by_rows
