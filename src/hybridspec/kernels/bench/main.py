"""The kernels' bench: checks, then timings; one JSON document, written after every part.

    PYTHONPATH=src python -m hybridspec.kernels.bench --out benchmarks/h200/kernels.json

`hybridspec bench kernels` is the same where typer is installed. A part that fails is reported and
left out, and the run goes on. Without a GPU, `--shape small` runs everything once through Triton's
interpreter (TRITON_INTERPRET=1): its figures mean nothing.
"""

from __future__ import annotations

import gc
import importlib
import os
import sys
import time
from argparse import Namespace
from collections.abc import Callable, Sequence
from pathlib import Path

import torch

from hybridspec.bench.files import made
from hybridspec.kernels.bench.clock import Clock, GraphClock
from hybridspec.kernels.bench.parts import PARTS
from hybridspec.kernels.bench.progress import Progress
from hybridspec.kernels.bench.setting import SHAPES, Setting
from hybridspec.kernels.bench.table import table
from hybridspec.kernels.bench.verb import NAME, parser
from hybridspec.kernels.early import has_early


def main(arguments: list[str] | None = None, prog: str | None = None) -> int:
    """Run the parts asked for. Returns 0 if all ran and all checks held, 130 after Ctrl-C, else 1.

    Raises:
        RequestError: `--resume` and a document that this run cannot go on with, or a folder that
            cannot be made.
    """
    began = time.monotonic()
    given = parser(prog, list(SHAPES)).parse_args(arguments)
    s = setting(given.shape)
    s.peers, s.defaults = given.peers, given.defaults
    done = Progress(s, path_of(given.out))
    if given.resume:
        done.resume()
        if others := done.others():
            _say(f"Of another version of the source are the figures of: {', '.join(others)}.")
    if s.device.type == "cuda":
        s.copied = copy_bandwidth(s)
    if done.path is not None:
        made(done.path.parent)  # what is wrong with it shows before hours of work
    try:
        answering = _parts(given, done, began)
    except KeyboardInterrupt:
        if done.path is None or not done.parts:
            raise
        _say(f"Interrupted. {done.path} has what was measured; --resume goes on from there.")
        return 130
    if not answering:
        arguments = sys.argv[1:] if arguments is None else arguments
        return _again(list(arguments), given, done, began)
    return _report(done)


def _parts(given: Namespace, done: Progress, began: float) -> bool:
    """Every part that is wanted. Whether the GPU answers to the end; it may not after a failure."""
    turns = wanted(given, done)
    for i, name in enumerate(turns):
        if name in done.tried:
            continue
        if given.seconds is not None and time.monotonic() - began > given.seconds:
            done.left_out = list(dict.fromkeys(n for n in turns[i:] if n not in done.tried))
            break
        _say(f"[{i + 1} of {len(turns)}] {name}")
        ran = run(name, done)
        done.write()
        if not ran and not answers(done.setting.device):
            return False
    done.write()
    return True


def wanted(given: Namespace, done: Progress) -> list[str]:
    """The parts to run, in order: checks once, timings as often as was asked for."""
    names = [n for n in given.parts or PARTS if n not in given.without]
    return [
        name
        for sweep in range(given.sweeps)
        for name in names
        if sweep >= done.swept(name) and not (sweep and name.startswith("check-"))
    ]


def part(name: str) -> Callable[[Setting], None]:
    """The function that PARTS names."""
    module, function = PARTS[name].split(".")
    found: Callable[[Setting], None] = getattr(
        importlib.import_module(f"{__package__}.{module}"), function
    )
    return found


def run(name: str, done: Progress) -> bool:
    """One part; whether it ran to its end."""
    start = time.perf_counter()
    done.begin(name)
    try:
        with torch.no_grad():
            part(name)(done.setting)
    except Exception as error:
        _say(f"{done.fail(name, error)} The others go on.")
    else:
        done.end(name, time.perf_counter() - start)
    _say(f"{name}: {time.perf_counter() - start:.1f} s")
    gc.collect()  # a part may need most of the memory, so none keeps what it has used
    return name not in done.failed


def answers(device: torch.device) -> bool:
    """Whether the device still works: after a bad access it refuses everything in this process."""
    if device.type != "cuda":
        return True
    try:
        torch.cuda.synchronize(device)
        torch.cuda.empty_cache()
        return float(torch.ones((), device=device)) == 1.0
    except Exception:
        return False


def _again(arguments: list[str], given: Namespace, done: Progress, began: float) -> int:
    """The rest of the parts in a new process, to which the GPU answers."""
    if done.path is None:
        _say("The GPU answers no more; with --out PATH, a new process would run the other parts.")
        return 1
    _say("The GPU answers no more in this process: a new one runs the other parts.")
    left = None if given.seconds is None else given.seconds - (time.monotonic() - began)
    more = rest(arguments, given.without, done.tried, left)
    os.execv(sys.executable, [sys.executable, "-m", __package__, *more])


def rest(
    arguments: list[str], without: Sequence[str], failed: Sequence[str], left: float | None
) -> list[str]:
    """The arguments of a run that goes on without the parts that failed."""
    more = [*arguments, "--resume", "--without", *dict.fromkeys((*without, *failed))]
    return more if left is None else [*more, "--seconds", f"{max(0.0, left):.0f}"]


def _report(done: Progress) -> int:
    """The tables, what went wrong, and the exit code."""
    sys.stdout.write("\n" + table(done.document()) + "\n")
    for failure in done.failed.values():
        sys.stdout.write(f"{failure['error']}\n")
    if done.left_out:
        names = ", ".join(done.left_out)
        sys.stdout.write(f"Left out, for time was up: {names}. --resume goes on with them.\n")
    bad = done.bad()
    sys.stdout.write(f"{_verdict(done, bad)}\n")
    sys.stdout.flush()
    return 1 if done.failed or done.left_out or bad else 0


def _verdict(done: Progress, bad: list[str]) -> str:
    """On the checks: which do not hold, and which parts say nothing because they did not run."""
    if bad:
        said = f"Checks that do not hold: {', '.join(bad)}."
    else:
        said = "All checks that ran hold." if done.checked() else "No check ran."
    missing = list(dict.fromkeys((*done.failed, *done.left_out)))
    return f"{said} Not run to the end: {', '.join(missing)}." if missing else said


def setting(shape: str) -> Setting:
    """The GPU in bf16 where there is one, else the interpreter in fp32 (its bf16 products are
    wrong)."""
    if not torch.cuda.is_available():
        return Setting(SHAPES[shape], torch.device("cpu"), torch.float32, Clock(), early=False)
    device = torch.device("cuda", torch.cuda.current_device())
    return Setting(SHAPES[shape], device, torch.bfloat16, GraphClock(), has_early(device))


def copy(a: torch.Tensor, b: torch.Tensor) -> None:
    """b becomes a, by a kernel that reads and writes (a copy in a graph is a slower engine's)."""
    torch.bitwise_not(a, out=b)


def copy_bandwidth(s: Setting) -> float:
    """Bytes a second, read and written, of a copy of 1 GiB."""
    a, b = (torch.empty(1 << 28, dtype=torch.int32, device=s.device) for _ in range(2))
    us = s.clock([lambda: copy(a, b)])
    return 2 * a.nbytes / us * 1e6


def path_of(out: Path | None) -> Path | None:
    """The document of an `--out`, a folder or a file."""
    return out if out is None or out.suffix == ".json" else out / NAME


def _say(sentence: str) -> None:
    print(sentence, flush=True)
