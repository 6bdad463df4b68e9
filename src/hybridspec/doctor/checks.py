"""The checks in their order, and how they are run."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from hybridspec.doctor import environment as e
from hybridspec.doctor.decoding import block, kernels, launcher, load
from hybridspec.doctor.finding import Finding, failure
from hybridspec.doctor.memory import memory
from hybridspec.doctor.pair import checkpoints, profile
from hybridspec.doctor.setting import Check, Setting

CHECKS: dict[str, Check] = {
    "python": e.python,
    "torch": e.torch_version,
    "threads": e.threads,
    "triton": e.triton,
    "cuda-bindings": e.cuda_bindings,
    "gpu": e.gpu,
    "graphs": e.graphs,
    "conditional nodes": e.conditional_nodes,
    "checkpoints": checkpoints,
    "profile": profile,
    "memory": memory,
    "load": load,
    "tokens": block,
    "launcher": launcher,
    "kernels": kernels,
}
SLOW = {  # of large pairs
    "checkpoints": "Reading the checkpoints ...",
    "load": "Loading the weights ...",
    "tokens": "Decoding ...",
}


def examine(setting: Setting, announce: Callable[[str], None] | None = None) -> Iterator[Finding]:
    """All findings as they come. A check that raises has failed; the next ones go on.

    announce: is told of checks that may take long, before they begin.
    """
    for name, check in CHECKS.items():
        if announce is not None and name in SLOW:
            announce(SLOW[name])
        yield from examined(name, check, setting)


def examined(name: str, check: Check, setting: Setting) -> Iterator[Finding]:
    """The findings of one check; an error in it is one of them."""
    try:
        yield from check(setting)
    except Exception as error:
        yield failure(name, error)
