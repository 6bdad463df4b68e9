"""A recorder whose launches become the nodes of one CUDA graph, to any depth of conditions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial

import torch
from torch import Tensor

from hybridspec.runtime.graph import nodes
from hybridspec.runtime.graph.allocations import nothing_allocated
from hybridspec.runtime.graph.arming import Arming
from hybridspec.runtime.graph.recorder import (
    Arm,
    Description,
    GraphError,
    Recorder,
    Work,
    check_condition,
    check_switch,
    name_of,
)

TOP = "the graph"


@dataclass(frozen=True, slots=True)
class Site:
    """What all recorders of one graph share.

    stream: the current one, a side stream. empty_first: bodies begin with an empty node. graphs:
    the graph and its bodies. kept: what kernels' arguments live in.
    """

    device: torch.device
    stream: int
    arming: Arming
    empty_first: bool = False
    graphs: list[nodes.Graph] = field(default_factory=list)
    kept: list[object] = field(default_factory=list)


class Recording:
    """Adds to one graph, or to one body of a condition in it. No capture is open between two calls,
    so that a description may fail anywhere. It takes launches only while it is its turn: not while
    a body in it is described, and not once its own description has ended."""

    def __init__(self, site: Site, graph: nodes.Graph, place: str = TOP) -> None:
        """graph: an empty one. place: what to call it in a message."""
        site.graphs.append(graph)
        self._site, self._graph, self._place = site, graph, place
        self._tail = nodes.add_empty(graph) if site.empty_first and place != TOP else nodes.Tail()
        self._pieces = 0
        self._my_turn = True

    def take(self, describe: Description) -> None:
        """All that is described, and nothing after it."""
        describe(self)
        self._my_turn = False

    def run(self, work: Work) -> None:
        """Capture it behind what is there."""
        self._add(work, name_of(work))

    def switch(
        self,
        index: Tensor,
        bodies: Sequence[Description],
        damaged: Tensor,
        *,
        arm: Arm | None = None,
    ) -> None:
        """A SWITCH node, with what arms it in front."""
        self._check_turn()
        check_switch(index, bodies, damaged, self._site.device)
        handle, size = nodes.new_handle(self._graph), len(bodies)
        own = partial(self._site.arming.switch, handle, index, size, damaged)
        self._arm(own if arm is None else partial(arm, handle))
        graphs = self._condition(nodes.SWITCH, handle, size)
        for i, (body, graph) in enumerate(zip(bodies, graphs, strict=True)):
            self._inside(graph, f"body {i} of a switch", body)
        self._site.kept.extend((index, damaged))

    def loop(self, going: Tensor, body: Description, *, arm: Arm | None = None) -> None:
        """A WHILE node, armed in front of it and at the end of its body."""
        self._check_turn()
        check_condition("going of a loop", going, self._site.device)
        handle = nodes.new_handle(self._graph)
        own = partial(self._site.arming.loop, handle, going)
        again = own if arm is None else partial(arm, handle)
        self._arm(own)
        (graph,) = self._condition(nodes.WHILE, handle, 1)
        self._inside(graph, "the body of a loop", body, again)
        self._site.kept.append(going)

    def _add(self, work: Work, name: str) -> None:
        self._check_turn()
        self._pieces += 1
        piece = f"Piece {self._pieces} of {self._place} ({name})"
        with nothing_allocated(piece, self._site.device):
            self._tail = nodes.capture(self._site.stream, self._graph, self._tail, work, piece)
        self._site.kept.append(work)

    def _arm(self, work: Work) -> None:
        """Work that ends in setting a handle: behind the end of what is there, unless its kernel is
        an early one of the caller's; what follows waits for its end."""
        self._tail = self._tail.full()
        self._add(work, "the arming of a condition")
        self._tail = self._tail.full()

    def _condition(self, kind: object, handle: int, size: int) -> list[nodes.Graph]:
        self._tail, bodies = nodes.add_conditional(self._graph, self._tail, kind, handle, size)
        return bodies

    def _inside(
        self, graph: nodes.Graph, place: str, body: Description, last: Work | None = None
    ) -> None:
        """A body, with what arms the condition again at its end. None is left without a node."""
        inner = Recording(self._site, graph, f"{place} in {self._place}")

        def whole(recorder: Recorder) -> None:
            body(recorder)
            if last is not None:
                inner._arm(last)
            elif not inner._tail.nodes:
                nodes.add_empty(graph)

        self._my_turn = False
        try:
            inner.take(whole)
        finally:
            self._my_turn = True

    def _check_turn(self) -> None:
        if not self._my_turn:
            raise GraphError(
                f"The recorder of {self._place} was used when it was not its turn; describe "
                "launches to the recorder that a description is handed, and nowhere else."
            )
