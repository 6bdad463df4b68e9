"""Small shared pieces: root-mean-square norm, rotary embedding, dtypes."""

from __future__ import annotations

from functools import cache

import torch
import torch.nn.functional as F
from torch import Tensor

MOST_ROWS = 16  # of a verification
MEASURED = 8192  # columns of a product: enough to know it by


def wide(dtype: torch.dtype) -> torch.dtype:
    """The dtype of states, norms and routing: float32, or float64 for a float64 model."""
    return torch.float64 if dtype == torch.float64 else torch.float32


def weight(*shape: int, device: torch.device, dtype: torch.dtype) -> Tensor:
    """Uninitialised weights [..., out, in]. On a CPU they lie input-major in memory.

    A product of a few rows with out-major weights makes the CPU library repack them every time: at
    4 to 16 rows it takes 2 to 3.5 times as long.
    """
    if device.type != "cpu":
        return torch.empty(shape, device=device, dtype=dtype)
    return torch.empty(*shape[:-2], shape[-1], shape[-2], dtype=dtype).transpose(-1, -2)


def product(x: Tensor, w: Tensor) -> Tensor:
    """x [T, in] by w [out, in] -> [T, out]. On a CPU a row's bits do not depend on T <= 16.

    The library sums in another order for some numbers of rows; as many are then run as it takes
    for the usual one (`rows_to_run`).
    """
    rows, run = x.shape[0], rows_to_run(x, w)
    return F.linear(x, w) if run == rows else F.linear(_more(x, run), w)[:rows]


def add_product(residual: Tensor, x: Tensor, w: Tensor) -> Tensor:
    """residual [T, out] + `product(x, w)`, in one call."""
    rows, run = x.shape[0], rows_to_run(x, w)
    if run == rows:
        return torch.addmm(residual, x, w.t())
    return torch.addmm(_more(residual, run), _more(x, run), w.t())[:rows]


def rows_to_run(x: Tensor, w: Tensor) -> int:
    """How many rows to run for the T of x, so that on a CPU sums have one order for all T <= 16."""
    rows = x.shape[0]
    if not x.is_cpu or rows > MOST_ROWS:
        return rows
    return _rows_to_run(tuple(w.shape), w.stride(0) == 1, x.dtype, torch.get_num_threads())[rows]


@cache
def _rows_to_run(
    shape: tuple[int, ...], input_major: bool, dtype: torch.dtype, threads: int
) -> tuple[int, ...]:
    """For every T, the fewest rows from T on whose sums have the order of 16 rows.

    Measured once a shape, for it depends on that, on the processor and on the threads. With MKL on
    Intel's processors a single row is the exception; on AMD's often any number but 4, 8 and 12 to
    16.
    """
    g = torch.Generator().manual_seed(0)
    out, inner = min(shape[0], MEASURED), shape[1]
    x = torch.randn(MOST_ROWS, inner, generator=g).to(dtype)
    w = torch.randn(*((inner, out) if input_major else (out, inner)), generator=g).to(dtype)
    w = w.t() if input_major else w
    whole, run = F.linear(x, w), list(range(MOST_ROWS + 1))
    for rows in range(MOST_ROWS - 1, 0, -1):
        usual = rows > 1 and torch.equal(F.linear(x[:rows], w), whole[:rows])
        run[rows] = rows if usual else run[rows + 1]
    return tuple(run)


def _more(x: Tensor, rows: int) -> Tensor:
    """x [T, n] and its first row again until there are so many rows."""
    missing = rows - x.shape[0]
    if x.shape[0] == 1:
        return x.expand(rows, -1)
    return torch.cat((x, x[:1].expand(missing, -1)))


class RMSNorm:
    """x / sqrt(mean(x^2) + eps) * factor over the last dimension, in the factor's dtype.

    Computed as sqrt(n) x / hypot(|x|, sqrt(n eps)) for n elements: the same number in four calls,
    where `torch.nn.functional.rms_norm` takes seven on a CPU.
    """

    def __init__(self, factor: Tensor, size: int, eps: float) -> None:
        """`factor` broadcasts against x [..., size]."""
        self.factor = factor * size**0.5
        self.floor = factor.new_full((), (size * eps) ** 0.5)

    def __call__(self, x: Tensor) -> Tensor:
        """x [..., size] -> the same shape and dtype."""
        high = x if x.dtype == self.factor.dtype else x.to(self.factor.dtype)
        length = torch.linalg.vector_norm(high, dim=-1, keepdim=True)
        y = (high / torch.hypot(length, self.floor)).mul_(self.factor)
        return y if high is x else y.to(x.dtype)


class Rope:
    """Rotary tables for positions 0..capacity-1; pairs are (i, i + rotary_dim / 2).

    Text has one position axis, so the interleaved three-axis form of Qwen3.5 is exactly this one.
    """

    def __init__(
        self, theta: float, rotary_dim: int, capacity: int, device: torch.device, dtype: torch.dtype
    ) -> None:
        self.rotary_dim, self.capacity = rotary_dim, capacity
        exponent = torch.arange(0, rotary_dim, 2, dtype=torch.float32, device=device) / rotary_dim
        angles = torch.arange(capacity, device=device)[:, None].float() / theta**exponent
        cos, sin = angles.cos().to(wide(dtype)), angles.sin().to(wide(dtype))
        self.cos = torch.cat((cos, cos), -1)[:, None]  # [capacity, 1, rotary_dim]
        self.sin = torch.cat((-sin, sin), -1)[:, None]

    def rotate(self, x: Tensor, start: int) -> Tensor:
        """Rotate the leading dimensions of x [..., T, heads, D] at positions start..start+T-1."""
        rows, width = slice(start, start + x.shape[-3]), self.rotary_dim
        turning = x if width == x.shape[-1] else x[..., :width]
        swapped = turning.roll(width // 2, -1)  # the two halves change places
        turned = (turning * self.cos[rows]).addcmul_(swapped, self.sin[rows]).to(x.dtype)
        return turned if turning is x else torch.cat((turned, x[..., width:]), -1)
