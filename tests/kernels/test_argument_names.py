"""Names that a kernel's arguments must not have.

Triton writes the function that takes a kernel's arguments as text with names of its own; an
argument of the same name is overwritten there, on a GPU alone, and the interpreter shows nothing.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator

from triton.runtime.jit import KernelInterface

import hybridspec.kernels
import hybridspec.runtime

TAKEN = {"params", "specialization", "options", "backend", "specialize_impl", "JITCallable"}


def kernels() -> Iterator[tuple[str, list[str]]]:
    for package in (hybridspec.kernels, hybridspec.runtime):
        for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if found.name.endswith("__main__"):
                continue
            for name, value in vars(importlib.import_module(found.name)).items():
                if isinstance(value, KernelInterface):
                    yield f"{found.name}.{name}", value.arg_names


def test_no_argument_has_a_name_of_triton_s():
    seen = dict(kernels())
    assert len(seen) > 50
    assert {name: TAKEN & set(names) for name, names in seen.items() if TAKEN & set(names)} == {}
