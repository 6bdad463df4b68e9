"""The processor of this machine by name and cores, and a note where a profile is of another one."""

from __future__ import annotations

import contextlib
import os
import platform
import sys
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path

_told: set[str] = set()


def processor_name() -> str:
    """The processor's name, with family and model: virtual machines hide the name's better half."""
    facts: dict[str, str] = {}
    for line in _read("/proc/cpuinfo").splitlines():
        name, _, value = line.partition(":")
        facts.setdefault(name.strip(), value.strip())
    if "model name" not in facts:
        return platform.processor() or platform.machine()
    which = [f"{n} {facts[n]}" for n in ("cpu family", "model") if n in facts]
    return f"{facts['model name']} ({', '.join(which)})" if which else facts["model name"]


def cores() -> int:
    """Those this process may use, which a container may have restricted."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@lru_cache(maxsize=1)
def _ours() -> str:
    return processor_name()


def of_another(runtime: Mapping[str, str]) -> bool:
    """Whether a CPU's profile was made on another model than this one.

    runtime: the profile's. One that does not name its processor is let pass, as is a GPU's, whose
    name must match anyway.
    """
    return runtime.get("device") == "cpu" and runtime.get("cpu", _ours()) != _ours()


def told_of(runtime: Mapping[str, str]) -> None:
    """The user knows of this profile's processor: `note_other_processor` says nothing of it."""
    _told.add(runtime["cpu"])


def note_other_processor(runtime: Mapping[str, str]) -> None:
    """Say once on standard error, in a short line, that a profile is `of_another` processor;
    `hybridspec doctor` names both."""
    if not of_another(runtime) or runtime["cpu"] in _told:
        return
    told_of(runtime)
    if sys.stderr is not None:
        with contextlib.suppress(OSError):
            print(
                "Note: the calibration profile is of another processor, so its lengths may not "
                "suit; `hybridspec calibrate --help` says how to make one here.",
                file=sys.stderr,
                flush=True,
            )


def _read(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8")
    except OSError:
        return ""
