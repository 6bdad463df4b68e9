"""Every decoding system as a user starts it: a server each, on a port, around shared engines.

Targets and drafters are scripted (`scripted_text.py`). Every answer's committed state is compared
with a fresh run over its tokens (`HYBRIDSPEC_CHECK`).
"""

from __future__ import annotations

from contextlib import ExitStack
from functools import cached_property
from typing import Any

import pytest

from hybridspec.catalogue import CATALOGUE
from hybridspec.engine import Engine
from hybridspec.model.gdn import VERIFY
from hybridspec.serving import Settings, create_app
from scripted_text import text_engine
from served import Served, serve

LEAD = "dflash"  # blocks of 16, whatever the drafter thinks of them: here every case is run
# Their rounding is not that of `ar`, so they are compared in float64, where no near tie turns.
OTHER_SUMS = ("static:4:block", "static:7:replay", "replayssm", "evict+replayssm")
SYSTEMS = (
    "static:4", "static:5:exact", "static:5:per-token", "static:16", LEAD, "length16",
    "ema", "cascade",
    "static", "dcut", "dcut:angelslim", "evict", "evict-cal", "evict-sts", "vllm-adaptive",
    "specdecpp:0.4", "nominal-only", "hybridspec:7", "hybridspec", "hybridspec:per-token",
    "hybridspec+look:3", "hybridspec+shrink", "auto", "auto+correct", *OTHER_SUMS,
)  # fmt: skip
EACH = [LEAD, *(pytest.param(s, marks=pytest.mark.full) for s in SYSTEMS if s != LEAD)]
NEAR = 1e-9  # float64: two orders of the same sums, through eight layers


def tolerance(system: str) -> float:
    """How far a log-probability may be from plain decoding's: on a CPU not at all."""
    return NEAR if system in OTHER_SUMS else 0.0


class Stage:
    """The servers, each started when it is first asked, and the engines behind them."""

    def __init__(self, **options: Any) -> None:
        """`options` are those of `Engine.load`."""
        self._options = {"max_context": 4096, **options}
        self._servers: dict[tuple[str, bool], Served] = {}
        self._stack = ExitStack()

    @cached_property
    def single(self) -> Engine:
        """In float32, where most systems have the bits of plain decoding."""
        engine = text_engine(**self._options)
        engine.drafter.sure = True
        return engine

    @cached_property
    def double(self) -> Engine:
        """In float64."""
        engine = text_engine(dtype="float64", **self._options)
        engine.drafter.sure, engine.profile = True, self.single.profile
        return engine

    def engine(self, system: str) -> Engine:
        """The one that serves a system."""
        return self.double if system in OTHER_SUMS else self.single

    def server(self, system: str, beside: str | None = None) -> Served:
        """That of a system; `beside` names one whose engine it has, as `ar` beside others."""
        engine = self.engine(beside or system)
        key = system, engine is self.__dict__.get("double")
        if key not in self._servers:
            app = create_app(engine, Settings(system=system))
            self._servers[key] = self._stack.enter_context(serve(app))
        return self._servers[key]

    def __enter__(self) -> Stage:
        return self

    def __exit__(self, *error: object) -> None:
        for server in self._servers.values():
            server.leave()
        self._stack.close()


def named() -> set[str]:
    """What is left of the systems' names without their arguments, and with a verifier."""
    kinds = {name.partition(":")[0] for name in SYSTEMS}
    return kinds | {f"static:{name.split(':')[2]}" for name in SYSTEMS if name.count(":") == 2}


def all_named() -> set[str]:
    """What there is: of the catalogue, those without a profile, and the verifiers."""
    simple = {"dflash", "static", "length16", "replayssm", "ema", "cascade"}
    return set(CATALOGUE) | simple | {f"static:{verifier}" for verifier in VERIFY}
