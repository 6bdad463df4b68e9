"""What a soak found, as a table, and whether it is what a server promises."""

from __future__ import annotations

from statistics import mean
from typing import Any

# Of memory, from the third quarter to the last. Before that, threads begin and allocators keep what
# each has used once; later only a leak grows.
GROWTH = 0.01


def sound(results: dict[str, Any]) -> bool:
    """Whether nothing failed, all ended, and nothing grew."""
    before, after = results["before"], results["after"]
    ended = after["waiting"] == after["running"] == 0
    freed = after["files"] <= before["files"]
    third, last = _quarters(results)
    return bool(
        results["failed"] == 0
        and results["exit_code"] == 0
        and ended
        and freed
        and last <= third * (1 + GROWTH)
    )


def report(results: dict[str, Any]) -> str:
    """A table in Markdown, and the faults if there are any."""
    counts, before, after = results["counts"], results["before"], results["after"]
    samples = results["samples"]
    third, last = _quarters(results)
    rows = [
        ("duration", f"{results['minutes']:.1f} min, {results['clients']} clients"),
        ("requests", str(sum(counts.values()))),
        ("answered whole", f"{counts.get('answered', 0)}"),
        ("answered as a stream", f"{counts.get('streamed', 0)}"),
        ("left by their clients", f"{counts.get('left', 0)}"),
        ("wrong, refused", f"{counts.get('refused', 0)}"),
        ("faults, or answers unlike those alone", str(results["failed"])),
        ("most in the line", str(max((s["waiting"] for s in samples), default=0))),
        ("resident memory, third and last quarter", f"{_mib(third)}, {_mib(last)}"),
        ("resident memory, before and after", f"{_mib(before['memory'])}, {_mib(after['memory'])}"),
        ("threads, before and after", f"{before['threads']}, {after['threads']}"),
        ("open files, before and after", f"{before['files']}, {after['files']}"),
        ("waiting and running afterwards", f"{after['waiting']}, {after['running']}"),
        ("exit code after SIGTERM", str(results["exit_code"])),
    ]
    table = "\n".join(f"| {name} | {value} |" for name, value in rows)
    faults = "".join(f"\n- {fault}" for fault in results["faults"])
    return f"| | |\n| --- | ---: |\n{table}\n" + (f"\nFaults:\n{faults}\n" if faults else "")


def _quarters(results: dict[str, Any]) -> tuple[float, float]:
    """Mean resident bytes in the third and in the last quarter of a run."""
    memory = [sample["memory"] for sample in results["samples"]]
    memory = memory or [results["before"]["memory"], results["after"]["memory"]]
    late = memory[len(memory) // 2 :]
    middle = max(1, len(late) // 2)
    return mean(late[:middle]), mean(late[middle:] or late)


def _mib(size: float) -> str:
    return f"{size / 2**20:.0f} MiB"
