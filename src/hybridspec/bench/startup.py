"""Process start to first token, and peak memory, of the real command line.

Run before this process imports torch, whose files would otherwise stay in memory and make the
first start warm.
"""

from __future__ import annotations

import importlib.util
import os
import select
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import IO, Any

from hybridspec import assets
from hybridspec.bench.options import SpeedOptions
from hybridspec.errors import HybridSpecError

PROMPT = "Why is the sky blue? Answer in three sentences."
TOKENS = 64
WARM_RUNS = 3
POLL_SECONDS = 0.02


def measure_startup(options: SpeedOptions) -> dict[str, Any]:
    """Start `hybridspec generate` once cold and a few times warm.

    The first run comes after the kernel was asked to forget the files of torch and of a checkpoint
    folder; files that another process uses stay, so that run is as cold as it can be made without
    rights.

    Raises:
        HybridSpecError: the command fails.
    """
    command = _command(options)
    forgotten = sum(map(_forget, _files(options)))
    first, *rest = (_start(command, options) for _ in range(1 + WARM_RUNS))
    peaks = [peak for _, peak in (first, *rest) if peak is not None]
    return {
        "prompt": PROMPT,
        "tokens": TOKENS,
        "files_forgotten": forgotten,
        "first_seconds": first[0],
        "warm_seconds": median(seconds for seconds, _ in rest),
        "warm_runs": [seconds for seconds, _ in rest],
        "peak_memory_mib": max(peaks) / 2**20 if peaks else None,
    }


def _command(options: SpeedOptions) -> list[str]:
    command = [sys.executable, "-m", "hybridspec", "generate", PROMPT]
    command += ["--max-tokens", str(TOKENS)]
    named = {
        "--model": options.model,
        "--draft": options.draft,
        "--revision": options.revision,
        "--draft-revision": options.draft_revision,
        "--device": options.device,
        "--dtype": options.dtype,
    }
    for name, value in named.items():
        command += [name, value] if value is not None else []
    if options.chat is not None:
        command.append("--chat" if options.chat else "--raw")
    return command


def _start(command: Sequence[str], options: SpeedOptions) -> tuple[float, int | None]:
    """Seconds to the first byte of the answer, and the peak of resident memory in bytes."""
    environment = dict(os.environ)
    if options.threads is not None:
        environment["OMP_NUM_THREADS"] = str(options.threads)
    with tempfile.TemporaryFile() as errors:
        began = time.perf_counter()
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=errors, env=environment
        ) as process:
            first, peak = _watch(process)
        if process.returncode or first is None:
            raise HybridSpecError(
                f"The start could not be measured, `hybridspec generate` ended with code "
                f"{process.returncode}: {_last_line(errors)}"
            )
    return first - began, peak


def _watch(process: subprocess.Popen[bytes]) -> tuple[float | None, int | None]:
    """Time of the first byte and last seen peak. The peak only grows, so late polls are enough."""
    assert process.stdout is not None
    pipe = process.stdout.fileno()
    first = peak = None
    while True:
        peak = _peak(process.pid) or peak
        if not select.select([pipe], [], [], POLL_SECONDS)[0]:
            continue
        if not os.read(pipe, 1 << 16):
            return first, peak
        first = first or time.perf_counter()


def _peak(pid: int) -> int | None:
    """VmHWM of a process, in bytes; None where there is no /proc or the process has ended."""
    try:
        status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    except OSError:
        return None
    sizes = [line.split()[1] for line in status.splitlines() if line.startswith("VmHWM:")]
    return int(sizes[0]) * 1024 if sizes else None


def _files(options: SpeedOptions) -> Iterator[Path]:
    """Files that a start reads: torch's libraries and the checkpoints that are folders here."""
    spec = importlib.util.find_spec("torch")
    if spec is not None and spec.origin is not None:
        yield from (Path(spec.origin).parent / "lib").glob("*.so*")
    folders = [options.model, options.draft]
    if options.model is None:
        folders = [str(assets.TARGET), options.draft or str(assets.DRAFTER)]
    for folder in folders:
        if folder is not None:
            yield from Path(folder).glob("*.safetensors")


def _forget(path: Path) -> bool:
    """Ask the kernel to drop a file from its cache; whether it could be asked."""
    try:
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(descriptor)
    except (OSError, AttributeError):  # macOS and Windows have no such call
        return False
    return True


def _last_line(errors: IO[bytes]) -> str:
    errors.seek(0)
    lines = errors.read().decode(errors="replace").strip().splitlines()
    return lines[-1] if lines else "it said nothing."
