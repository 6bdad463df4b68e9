"""Tensors that a CUDA kernel would misread are refused in a sentence, without a GPU."""

from __future__ import annotations

import pytest
import torch

from hybridspec.kernels.cuda import Kernel, KernelError, check
from hybridspec.kernels.gdn import baselines_cuda, exact_cuda
from hybridspec.kernels.gdn.baselines import Ring
from hybridspec.kernels.gdn.fused import Gates

KH, VH, DK, DV = 2, 4, 32, 32
CHANNELS = 2 * KH * DK + VH * DV
INT = torch.tensor(3, dtype=torch.int32)


def off(t: torch.Tensor) -> torch.Tensor:
    """The same, four bytes further on than a multiple of 16."""
    skipped = 4 // t.element_size()
    return torch.zeros(t.numel() + skipped, dtype=t.dtype)[skipped:].view(t.shape)


def tokens() -> dict[str, torch.Tensor]:
    made = {"q": (16, KH, DK), "k": (16, KH, DK), "v": (16, VH, DV), "beta": (16, VH)}
    made |= {"alpha": (16, VH), "state": (VH, DV, DK), "o": (16, VH, DV)}
    return {name: torch.zeros(shape) for name, shape in made.items()}


def columns(dtype=torch.bfloat16) -> dict:
    gates = Gates(torch.zeros(4, CHANNELS), torch.zeros(VH), torch.zeros(VH), torch.zeros(DV))
    return {
        "raw": torch.zeros(19, CHANNELS + VH * (DV + 2), dtype=dtype), "gates": gates,
        "state": torch.zeros(VH, DV, DK), "gated": torch.zeros(16, VH, DV, dtype=dtype),
        "squares": torch.zeros(16, VH, 1),
    }  # fmt: skip


def ring(layers: int) -> Ring:
    return Ring.empty(layers, KH, VH, DK, DV, "cpu")


def one(ring: Ring) -> dict:
    return ring.layer(0)._asdict()


STATES = torch.zeros(2, 16, VH, DV, DK)
CALLS = {
    "verify": (exact_cuda.verify, tokens() | {"z": torch.zeros(16, VH, DV), "length": INT}),
    "commit": (
        exact_cuda.commit,
        {"state": STATES[:, 0]} | ring(2)._asdict() | {"length": INT},
    ),
    "fused": (exact_cuda.fused, columns() | one(ring(1)) | {"length": INT}),
    "fused, fp32": (exact_cuda.fused, columns(torch.float32) | one(ring(1)) | {"length": INT}),
    "per_token": (baselines_cuda.per_token, tokens() | {"states": STATES[0], "length": INT}),
    "per_token_fused": (
        baselines_cuda.per_token_fused,
        columns() | {"states": STATES[0], "length": INT},
    ),
    "per_token_commit": (
        baselines_cuda.per_token_commit,
        {"state": STATES[:, 0], "states": STATES, "length": INT},
    ),
    "replay": (
        baselines_cuda.replay,
        tokens() | {"ring": ring(1).layer(0), "pending": INT, "length": INT},
    ),
    "replay_fused": (
        baselines_cuda.replay_fused,
        columns() | {"ring": ring(1).layer(0), "pending": INT, "length": INT},
    ),
    "replay_commit": (
        baselines_cuda.replay_commit,
        {"state": STATES[:, 0], "ring": ring(2), "pending": INT, "scratch": INT, "length": INT},
    ),
}
# read by single numbers, at any address of theirs
SINGLE = {"beta", "alpha", "squares", "rate", "bias", "length", "pending", "scratch"}


def changed(arguments: dict, path: tuple[str, ...], change) -> dict:
    """The arguments with one tensor, perhaps of a named tuple, changed."""
    name, *rest = path
    value = arguments[name]
    new = value._replace(**{rest[0]: change(getattr(value, rest[0]))}) if rest else change(value)
    return arguments | {name: new}


def paths(arguments: dict) -> list[tuple[str, ...]]:
    return [
        (name, field) if isinstance(value, tuple) else (name,)
        for name, value in arguments.items()
        for field in (value._fields if isinstance(value, tuple) else ("",))
    ]


EACH = [(name, path) for name, (_, arguments) in CALLS.items() for path in paths(arguments)]


@pytest.mark.parametrize("name", CALLS)
def test_what_is_right_is_refused_for_its_device_alone(name):
    call, arguments = CALLS[name]
    with pytest.raises(KernelError, match="is for a CUDA device; its state is on cpu"):
        call(**arguments)


@pytest.mark.parametrize(("name", "path"), EACH, ids=lambda x: x if isinstance(x, str) else x[-1])
def test_each_tensor_of_each_kernel_is_looked_at(name, path):
    call, arguments = CALLS[name]
    said = rf"^{'.'.join(path)} of the kernel \w+ "
    with pytest.raises(KernelError, match=said + r"is torch.float64; expected torch.\w+.$"):
        call(**changed(arguments, path, torch.Tensor.double))
    if path[-1] not in SINGLE:
        with pytest.raises(KernelError, match=said + r"does not lie at multiples of (16|8) bytes"):
            call(**changed(arguments, path, off))
    if path[-1] not in ("length", "pending", "scratch", "rate", "bias", "norm", "squares"):
        with pytest.raises(KernelError, match=said + "is not contiguous"):
            call(**changed(arguments, path, lambda t: t.mT.contiguous().mT))


def test_layers_may_lie_apart_at_multiples_of_16_bytes():
    apart = torch.zeros(3, 2, 4)[:, 0]
    check("f", {"x": apart}, torch.float32, apart=True)
    with pytest.raises(KernelError, match="is not contiguous"):
        check("f", {"x": apart}, torch.float32)
    with pytest.raises(KernelError, match="first stride 20 bytes"):
        check("f", {"x": torch.zeros(3, 5)[:, :4]}, torch.float32, apart=True)
    check("f", {"x": torch.zeros(3, 5)[:, :4]}, torch.float32, apart=True, aligned=4)


def test_tensors_of_two_devices_are_refused_before_a_launch():
    kernel = Kernel(None, 128)
    with pytest.raises(KernelError, match="on cpu and meta; expected one CUDA device"):
        kernel.launch((1,), (torch.zeros(1), torch.zeros(1, device="meta"), 3))
