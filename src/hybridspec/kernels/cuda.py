"""CUDA C++ through NVRTC, for the few kernels that Triton does not bring to the figure wanted.

Sources are compiled once a process for the device at hand, without a CUDA toolkit.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

import torch
from cuda.bindings import driver, nvrtc
from torch import Tensor

from hybridspec.errors import HybridSpecError

# Per cent of a multiprocessor's memory that blocks may share. The rest is first-level cache, and a
# load under way needs a line of it: with all of it shared, weights stream at half the speed
# (docs/log.md). One share for all kernels also spares changing it, for which a multiprocessor must
# run dry.
CARVEOUT = 57

Argument = Tensor | float | int | None

# No contraction of a multiplication and an addition unless it is spelt: bits must not depend on
# what a compiler finds worthwhile.
FLAGS = ("--std=c++17", "-fmad=false", "--ptxas-options=-v")


class Wide(int):
    """An int that a kernel takes as 64 bits."""


class KernelError(HybridSpecError):
    """A kernel does not compile or launch on this device."""


def check(
    kernel: str, tensors: Mapping[str, Tensor], dtype: torch.dtype, *, aligned: int = 16,
    apart: bool = False,
) -> None:  # fmt: skip
    """Refuse tensors that a kernel would misread. A wrapper calls it before it launches.

    Args:
        kernel: its name.
        tensors: by the names of the wrapper's arguments.
        dtype: which the kernel takes.
        aligned: bytes that it reads or writes at once.
        apart: the first dimension's parts may lie apart, each contiguous.

    Raises:
        KernelError: with what is wrong and what was expected.
    """
    for name, t in tensors.items():
        if wrong := _wrong(t, dtype, aligned, apart):
            raise KernelError(f"{name} of the kernel {kernel} {wrong}")


def _wrong(t: Tensor, dtype: torch.dtype, aligned: int, apart: bool) -> str | None:
    """The rest of a sentence, if there is one to say."""
    if t.dtype != dtype:
        return f"is {t.dtype}; expected {dtype}."
    if not (t[0] if apart else t).is_contiguous():
        within = "inside its first dimension " if apart else ""
        return f"is not contiguous {within}(strides {t.stride()}); pass a contiguous copy."
    steps = t.stride(0) * t.element_size() if apart else 0
    if t.data_ptr() % aligned or steps % aligned:
        return (
            f"does not lie at multiples of {aligned} bytes (address {t.data_ptr()}, first stride "
            f"{steps} bytes); begin its view at such a place or pass a copy."
        )
    return None


def _check_devices(arguments: Sequence[Tensor | int]) -> None:
    devices = sorted({str(a.device) for a in arguments if isinstance(a, Tensor)})
    if len(devices) != 1 or not devices[0].startswith("cuda"):
        raise KernelError(
            f"Tensors of a CUDA kernel are on {' and '.join(devices)}; expected one CUDA device."
        )


@dataclass(frozen=True, slots=True)
class Compiled:
    """A cubin and what the compiler said of it: nothing where NVRTC had it in its cache."""

    cubin: bytes
    log: str


@dataclass(frozen=True, slots=True)
class Source:
    """A source file and the headers beside it, by name."""

    text: str
    headers: Mapping[str, str]

    @classmethod
    def read(cls, package: str, file: str) -> Source:
        """A file of a package; every .cuh there and in this folder may be included."""
        folder = files(package)
        headers = {
            f.name: f.read_text(encoding="utf-8")
            for place in (files("hybridspec.kernels"), folder)
            for f in place.iterdir()
            if f.name.endswith(".cuh")
        }
        return cls(folder.joinpath(file).read_text(encoding="utf-8"), headers)


def compile_source(
    source: Source | str, architecture: int, defines: Mapping[str, int], *, anew: bool = False
) -> Compiled:
    """Compile CUDA C++ for sm_`architecture` (90, say). Needs no GPU. anew: past NVRTC's cache.

    Raises:
        KernelError: NVRTC refuses it; with its log.
    """
    target = f"sm_{architecture}" + ("a" if architecture >= 90 else "")  # products of warpgroups
    options = [*FLAGS, f"--gpu-architecture={target}"]
    options += [f"-D{name}={value}" for name, value in defines.items()]
    options += ["--no-cache"] if anew else []
    if isinstance(source, str):
        source = Source(source, {})
    names = [name.encode() for name in source.headers]
    texts = [text.encode() for text in source.headers.values()]
    program = _ok(
        nvrtc.nvrtcCreateProgram(source.text.encode(), b"kernel.cu", len(names), texts, names)
    )
    (result,) = nvrtc.nvrtcCompileProgram(program, len(options), [o.encode() for o in options])
    log = b" " * _ok(nvrtc.nvrtcGetProgramLogSize(program))
    _ok(nvrtc.nvrtcGetProgramLog(program, log))
    text = log.decode(errors="replace").rstrip("\0 \n")
    if result != nvrtc.nvrtcResult.NVRTC_SUCCESS:
        raise KernelError(f"A CUDA kernel does not compile for {target}: {text}")
    cubin = b" " * _ok(nvrtc.nvrtcGetCUBINSize(program))
    _ok(nvrtc.nvrtcGetCUBIN(program, cubin))
    _ok(nvrtc.nvrtcDestroyProgram(program))
    return Compiled(cubin, text)


@dataclass(frozen=True, slots=True)
class Kernel:
    """One function of a compiled source on one device."""

    function: driver.CUfunction
    threads: int
    shared: int = 0

    def launch(
        self, grid: Sequence[int], arguments: Sequence[Argument], *, early: bool = False
    ) -> None:
        """Queue it on the current stream. Tensors go as pointers (None as a null pointer), ints and
        floats as 32 bits, `Wide` ints as 64.

        early: it may start before the kernel ahead of it has ended (programmatic dependent launch);
        it then waits itself before it touches what that one writes.

        Raises:
            KernelError: tensors are not all on one CUDA device, or the driver refuses.
        """
        _check_devices(arguments)
        config = driver.CUlaunchConfig()
        config.gridDimX, config.gridDimY, config.gridDimZ = (*grid, 1, 1)[:3]
        config.blockDimX, config.blockDimY, config.blockDimZ = self.threads, 1, 1
        config.sharedMemBytes = self.shared
        config.hStream = torch.cuda.current_stream().cuda_stream
        if early:
            attribute = driver.CUlaunchAttribute()
            attribute.id = (
                driver.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION
            )
            attribute.value.programmaticStreamSerializationAllowed = 1
            config.attrs, config.numAttrs = [attribute], 1
        values, kinds = zip(*map(_passed, arguments), strict=True)
        _ok(driver.cuLaunchKernelEx(config, self.function, (values, kinds), 0))


_CARVEOUT = driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT


_functions: dict[int, driver.CUfunction] = {}


def carve(percent: int) -> None:
    """Another CARVEOUT for all kernels loaded so far, to measure what it does."""
    for function in _functions.values():
        _ok(driver.cuFuncSetAttribute(function, _CARVEOUT, percent))


@cache
def load(
    package: str, file: str, function: str, defines: tuple[tuple[str, int], ...], threads: int,
    device: int, shared: int = 0,
) -> Kernel:  # fmt: skip
    """A function of a source file of a package, compiled for a device.

    shared: bytes of shared memory a block, beside what the source declares with a size.

    Raises:
        KernelError: it does not compile or load there, or a block may not have so much memory.
    """
    module = _module(package, file, defines, device)
    made = _ok(driver.cuModuleGetFunction(module, function.encode()))
    _functions[int(made)] = made
    most = driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
    _ok(driver.cuFuncSetAttribute(made, _CARVEOUT, CARVEOUT))
    if shared > _ok(driver.cuFuncGetAttribute(most, made)):  # else more was asked for before
        _ok(driver.cuFuncSetAttribute(made, most, shared))
    return Kernel(made, threads, shared)


def _passed(argument: Argument) -> tuple[float | int | None, Any]:
    """An argument's value and C type."""
    if argument is None or isinstance(argument, Tensor):
        return 0 if argument is None else argument.data_ptr(), ctypes.c_void_p
    if isinstance(argument, Wide):
        return int(argument), ctypes.c_void_p  # as many bits
    return argument, ctypes.c_float if isinstance(argument, float) else ctypes.c_int


@cache
def _module(
    package: str, file: str, defines: tuple[tuple[str, int], ...], device: int
) -> driver.CUmodule:
    major, minor = torch.cuda.get_device_capability(device)
    torch.cuda.current_stream(device)  # creates the context that a module is loaded into
    compiled = compile_source(Source.read(package, file), 10 * major + minor, dict(defines))
    return _ok(driver.cuModuleLoadData(compiled.cubin))


def _ok(answer: tuple) -> object:  # type: ignore[type-arg]
    """The value of a call of cuda-bindings, whose first part is an error code."""
    code, *values = answer
    if code.value:
        raise KernelError(f"CUDA answered {code.name}.")
    return values[0] if len(values) == 1 else None
