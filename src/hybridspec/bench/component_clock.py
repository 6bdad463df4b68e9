"""Time of a target call by component, read where the model's own calls begin and end.

Wrappers stand around those calls while they are timed and are taken away again, so that the model
knows nothing of them. What runs between two boundaries counts for the innermost component.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

from hybridspec.bench.component_fits import COMPONENTS, OTHER
from hybridspec.model.target import Target

Boundary = tuple[object, str, str]  # owner, name of its call, component


class Clock:
    """Splits the time between `start` and `stop` among components.

    On a CPU a boundary reads the clock. On a GPU it records an event in the current stream; those
    are read once the device has finished, so an interval holds the stream's idle time too: where
    the host launches more slowly than the device works, it is the host's time.
    """

    def __init__(self, device: torch.device) -> None:
        self._device, self._gpu = device, device.type == "cuda"
        self._open: list[str] = []
        self._marks: list[tuple[str, Any]] = []  # the component that ran until then, and when

    def start(self) -> None:
        """Begin a call; a GPU has finished all earlier work."""
        if self._gpu:
            torch.cuda.synchronize(self._device)
        self._open = [OTHER]
        self._marks = [("", self._now())]

    def stop(self) -> dict[str, float]:
        """End it: ms by component, those that did not run included."""
        self._marks.append((OTHER, self._now()))
        if self._gpu:
            torch.cuda.synchronize(self._device)
        spent = dict.fromkeys(COMPONENTS, 0.0)
        _, earlier = self._marks[0]
        for component, now in self._marks[1:]:
            spent[component] += self._between(earlier, now)
            earlier = now
        return spent

    def around(self, component: str, call: Callable[..., Any]) -> Callable[..., Any]:
        """The same call, whose time counts for `component`."""

        def timed(*arguments: Any, **named: Any) -> Any:
            self._marks.append((self._open[-1], self._now()))
            self._open.append(component)
            value = call(*arguments, **named)
            self._marks.append((self._open.pop(), self._now()))
            return value

        return timed

    def _now(self) -> Any:
        if not self._gpu:
            return time.perf_counter()
        event = torch.cuda.Event(enable_timing=True)
        event.record(torch.cuda.current_stream(self._device))
        return event

    def _between(self, earlier: Any, now: Any) -> float:
        return float(earlier.elapsed_time(now)) if self._gpu else 1e3 * (now - earlier)


@contextmanager
def told_apart(target: Target, clock: Clock) -> Iterator[None]:
    """While it lasts, the target's calls mark their boundaries on a clock that was started."""
    places = boundaries(target)
    before = [vars(owner).get(name) for owner, name, _ in places]  # None: the class has it
    for owner, name, component in places:
        setattr(owner, name, clock.around(component, getattr(owner, name)))
    try:
        yield
    finally:
        for (owner, name, _), value in zip(places, before, strict=True):
            if value is None:
                delattr(owner, name)
            else:
                setattr(owner, name, value)


def boundaries(target: Target) -> list[Boundary]:
    """Mixers with their projections; router, routed and shared experts. The norms before both, as
    in the paper, are other time."""
    places: list[Boundary] = []
    for layer in target.layers:
        places += [
            (layer, "mix", "gdn" if layer.linear else "attention"),
            (layer, "mixer_norm", OTHER),
            (layer.mlp, "route", "moe"),
            (layer.mlp, "combine", "moe"),
        ]
    return places
