"""Compile every kernel, as its wrapper would launch it, for GPUs that are not there.

Run as a program, in a process of its own where nothing is interpreted, with one of these words: a
line of JSON for each launch and architecture, with what ptxas says of registers, spills and shared
memory.
- `some`: every kernel once for every kind of code, the 35B's launches for 9.0.
- `all`: every launch for every architecture.
- `control`: a launch that must spill.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import torch
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from triton.runtime.jit import JITFunction

ARCHITECTURES = (80, 86, 89, 90, 120)
KINDS = (86, 90, 120)  # Triton's code for 8.0 and 8.9 is that of 8.6, which has the least memory
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


def reports(launch: Launch, architectures: Iterable[int]) -> list[dict[str, int]]:
    """For each: bytes of shared memory and of spills, and registers a thread. Triton's code for 8.6
    and 8.9 is its code for 8.0, so that is compiled once. Launched early, only from 9.0 on."""
    found, known = [], {}
    for architecture in architectures:
        if launch.options.get("launch_pdl") and architecture < 90:
            continue
        family = 80 if architecture < 90 else architecture
        if family not in known:
            target = GPUTarget("cuda", family, 32)
            known[family] = triton.compile(source(launch), target=target, options=launch.options)
        told = _ptxas(known[family].asm["ptx"], architecture)
        spills = sum(int(n) for n in re.findall(r"(\d+) bytes spill", told))
        registers = max(int(n) for n in re.findall(r"Used (\d+) registers", told))
        facts = {"shared": known[family].metadata.shared, "spills": spills, "registers": registers}
        found.append({"architecture": architecture} | facts)
    return found


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


def cases(word: str) -> Iterator[tuple[str, list[Launch]]]:
    """Every kernel at the sizes of the models that it serves, those of the 35B first."""
    from kernel_calls import CALLS, CONTROL
    from prompt_calls import CALLS as PROMPTS

    chosen = CONTROL if word == "control" else CALLS | PROMPTS
    for name in sorted(chosen, key=other):
        yield name, launches(chosen[name])


def other(name: str) -> bool:
    """Whether a case is that of another model than the 35B."""
    return "pair" in name or "122b" in name


def different(word: str) -> Iterator[tuple[str, Launch]]:
    """Launches that compile to different code: most sizes are arguments, not constants."""
    seen = set()
    for name, made in cases(word):
        for launch in made:
            key = (source(launch).hash(), json.dumps(launch.options, sort_keys=True))
            if key not in seen:
                seen.add(key)
                yield name, launch


def planned(word: str) -> Iterator[tuple[str, Launch, tuple[int, ...]]]:
    """Launches and the architectures to compile each for."""
    seen = set()
    for name, launch in different(word):
        early = bool(launch.options.get("launch_pdl"))
        key = (launch.kernel, early)
        if word == "all":
            yield name, launch, ARCHITECTURES
        elif key not in seen and word == "some":
            yield name, launch, KINDS
        elif not (other(name) or early):
            yield name, launch, (90,)
        seen.add(key)


def main() -> None:
    work = list(planned(sys.argv[1]))
    with ThreadPoolExecutor(2) as pool:
        found = pool.map(lambda item: reports(*item[1:]), work)
        for (name, launch, _), facts in zip(work, found, strict=True):
            about = {"case": name, "kernel": launch.kernel.fn.__name__}
            for one in facts:
                sys.stdout.write(json.dumps(about | one) + "\n")


if __name__ == "__main__":
    main()
