"""CUDA C++ through NVRTC, for the few kernels that Triton does not bring to the figure wanted.

Sources are compiled once a process for the device at hand, without a CUDA toolkit.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

import torch
from cuda.bindings import driver, nvrtc
from torch import Tensor

from hybridspec.errors import HybridSpecError

# No contraction of a multiplication and an addition unless it is spelt: bits must not depend on
# what a compiler finds worthwhile.
FLAGS = ("--std=c++17", "-fmad=false", "--ptxas-options=-v")


class KernelError(HybridSpecError):
    """A kernel does not compile or launch on this device."""


@dataclass(frozen=True, slots=True)
class Compiled:
    """A cubin and what the compiler said of it."""

    cubin: bytes
    log: str


def compile_source(source: str, architecture: int, defines: Mapping[str, int]) -> Compiled:
    """Compile CUDA C++ for sm_`architecture` (90, say). Needs no GPU.

    Raises:
        KernelError: NVRTC refuses it; with its log.
    """
    options = [*FLAGS, f"--gpu-architecture=sm_{architecture}"]
    options += [f"-D{name}={value}" for name, value in defines.items()]
    program = _ok(nvrtc.nvrtcCreateProgram(source.encode(), b"kernel.cu", 0, [], []))
    (result,) = nvrtc.nvrtcCompileProgram(program, len(options), [o.encode() for o in options])
    log = b" " * _ok(nvrtc.nvrtcGetProgramLogSize(program))
    _ok(nvrtc.nvrtcGetProgramLog(program, log))
    text = log.decode(errors="replace").rstrip("\0 \n")
    if result != nvrtc.nvrtcResult.NVRTC_SUCCESS:
        raise KernelError(f"A CUDA kernel does not compile for sm_{architecture}: {text}")
    cubin = b" " * _ok(nvrtc.nvrtcGetCUBINSize(program))
    _ok(nvrtc.nvrtcGetCUBIN(program, cubin))
    _ok(nvrtc.nvrtcDestroyProgram(program))
    return Compiled(cubin, text)


@dataclass(frozen=True, slots=True)
class Kernel:
    """One function of a compiled source on one device."""

    function: driver.CUfunction
    threads: int

    def launch(
        self, grid: Sequence[int], arguments: Sequence[Tensor | int], *, early: bool = False
    ) -> None:
        """Queue it on the current stream. Tensors go as pointers, ints as 32 bits.

        early: it may start before the kernel ahead of it has ended (programmatic dependent launch);
        it then waits itself before it touches what that one writes.
        """
        config = driver.CUlaunchConfig()
        config.gridDimX, config.gridDimY, config.gridDimZ = (*grid, 1, 1)[:3]
        config.blockDimX, config.blockDimY, config.blockDimZ = self.threads, 1, 1
        config.hStream = torch.cuda.current_stream().cuda_stream
        if early:
            attribute = driver.CUlaunchAttribute()
            attribute.id = (
                driver.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION
            )
            attribute.value.programmaticStreamSerializationAllowed = 1
            config.attrs, config.numAttrs = [attribute], 1
        values = tuple(a.data_ptr() if isinstance(a, Tensor) else a for a in arguments)
        kinds = tuple(ctypes.c_void_p if isinstance(a, Tensor) else ctypes.c_int for a in arguments)
        _ok(driver.cuLaunchKernelEx(config, self.function, (values, kinds), 0))


@cache
def load(
    package: str, file: str, function: str, defines: tuple[tuple[str, int], ...], threads: int,
    device: int,
) -> Kernel:  # fmt: skip
    """A function of a source file of a package, compiled for a device.

    Raises:
        KernelError: it does not compile or load there.
    """
    major, minor = torch.cuda.get_device_capability(device)
    source = files(package).joinpath(file).read_text(encoding="utf-8")
    torch.cuda.current_stream(device)  # creates the context that a module is loaded into
    compiled = compile_source(source, 10 * major + minor, dict(defines))
    module = _ok(driver.cuModuleLoadData(compiled.cubin))
    return Kernel(_ok(driver.cuModuleGetFunction(module, function.encode())), threads)


def _ok(answer: tuple) -> object:  # type: ignore[type-arg]
    """The value of a call of cuda-bindings, whose first part is an error code."""
    code, *values = answer
    if code.value:
        raise KernelError(f"CUDA answered {code.name}.")
    return values[0] if len(values) == 1 else None
