"""Compile every kernel, as its wrapper would launch it, for GPUs that are not there.

Run as a program, in a process of its own where nothing is interpreted: a line of JSON for each
launch and architecture, with what ptxas says of registers, spills and shared memory.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import torch
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from triton.runtime.jit import JITFunction

ARCHITECTURES = (80, 86, 89, 90, 120)
NAMES = {
    torch.float64: "*fp64",
    torch.float32: "*fp32",
    torch.bfloat16: "*bf16",
    torch.int32: "*i32",
    torch.int64: "*i64",
}


class Launch(NamedTuple):
    kernel: Any
    arguments: tuple[Any, ...]
    options: dict[str, Any]


def launches(call: Callable[[], None]) -> list[Launch]:
    """What a wrapper would launch, had it a GPU."""
    seen: list[Launch] = []

    def record(self: Any, *args: Any, grid: Any, warmup: bool, **options: Any) -> None:
        seen.append(Launch(self, args, options))

    run, JITFunction.run = JITFunction.run, record
    try:
        call()
    finally:
        JITFunction.run = run
    return seen


def source(launch: Launch) -> ASTSource:
    """As the launcher specialises: aligned pointers and multiples of 16, known constants."""
    signature, constants, hints = {}, {}, {}
    pairs = zip(launch.kernel.params, launch.arguments, strict=True)
    for i, (parameter, value) in enumerate(pairs):
        if isinstance(value, torch.Tensor):
            signature[parameter.name] = NAMES[value.dtype]
            hints[(i,)] = [["tt.divisibility", 16]]
        elif parameter.is_constexpr or value is None or value == 1:
            signature[parameter.name] = "constexpr"
            constants[(i,)] = value
        elif isinstance(value, float):
            signature[parameter.name] = "fp32"
        else:
            signature[parameter.name] = "i32"
            if value % 16 == 0:
                hints[(i,)] = [["tt.divisibility", 16]]
    return ASTSource(launch.kernel, signature, constants, hints)


def report(launch: Launch, architecture: int) -> dict[str, int]:
    """Bytes of shared memory and of spills, and registers a thread."""
    target = GPUTarget("cuda", architecture, 32)
    compiled = triton.compile(source(launch), target=target, options=launch.options)
    told = _ptxas(compiled.asm["ptx"], architecture)
    spills = sum(int(n) for n in re.findall(r"(\d+) bytes spill", told))
    registers = max(int(n) for n in re.findall(r"Used (\d+) registers", told))
    return {"shared": compiled.metadata.shared, "spills": spills, "registers": registers}


def _ptxas(ptx: str, architecture: int) -> str:
    name = "ptxas-blackwell" if architecture >= 100 else "ptxas"
    program = Path(triton.__file__).parent / "backends/nvidia/bin" / name
    suffix = "a" if architecture >= 90 else ""
    with tempfile.NamedTemporaryFile("w", suffix=".ptx") as file:
        file.write(ptx)
        file.flush()
        flags = ["-v", f"-arch=sm_{architecture}{suffix}", file.name, "-o", "/dev/null"]
        done = subprocess.run([program, *flags], capture_output=True, text=True, check=True)
    return done.stderr


def cases() -> Iterator[tuple[str, list[Launch]]]:
    """Every kernel at the sizes of the models that it serves."""
    from kernel_calls import CALLS, CONTROL
    from prompt_calls import CALLS as PROMPTS

    for name, call in (CONTROL if sys.argv[1:] == ["control"] else CALLS | PROMPTS).items():
        yield name, launches(call)


def main() -> None:
    work = [(name, launch, a) for name, made in cases() for launch in made for a in ARCHITECTURES]
    with ThreadPoolExecutor(2) as pool:
        found = pool.map(lambda item: report(*item[1:]), work)
        for (name, launch, architecture), facts in zip(work, found, strict=True):
            kernel = launch.kernel.fn.__name__
            about = {"case": name, "kernel": kernel, "architecture": architecture}
            sys.stdout.write(json.dumps(about | facts) + "\n")


if __name__ == "__main__":
    main()
