"""A driver's graph API without a driver: it takes cuda-bindings' real arguments, and runs a graph.

Kernels are Python functions. It is strict about what the real one forbids or leaves undefined.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from cuda.bindings import driver as real

OK = real.CUresult.CUDA_SUCCESS
INVALID = real.CUresult.CUDA_ERROR_INVALID_VALUE
STATUS = real.CUstreamCaptureStatus
TYPES = real.CUgraphNodeType
PORT, EARLY = 1, real.CUgraphDependencyType.CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC.value
OUT = 32  # offset of phGraph_out in CUgraphNodeParams
CONTEXT = 0xC0


@dataclass
class Node:
    kind: TYPES
    graph: int
    after: dict[int, int]  # node and edge type
    work: Callable[[], None] | None = None
    handle: int = 0
    loops: bool = False
    bodies: list[int] = field(default_factory=list)
    memory: object = None  # of the array that phGraph_out is


class Driver:
    """In place of `cuda.bindings.driver`; what it lacks is the real one's: structures, enums."""

    def __init__(self):
        self.graphs: dict[int, list[int]] = {}
        self.nodes: dict[int, Node] = {}
        self.handles: dict[int, int] = {}  # to graphs
        self.values: dict[int, int] = {}
        self.launchable: dict[int, int] = {}
        self.capture: tuple[int, int] | None = None  # stream, graph
        self.tail: dict[int, int] = {}
        self.broken = False
        self.version = 13000
        self.ids = iter(range(1 << 40, 1 << 41))  # handles need more than 32 bits

    def __getattr__(self, name):
        return getattr(real, name)

    # Kernels.

    def launch(self, work: Callable[[], None], *, early: bool = False) -> None:
        """On the stream under capture a node, else at once."""
        if self.capture is None:
            work()
            return
        kernels = {n for n in self.tail if self.nodes[n].kind == TYPES.CU_GRAPH_NODE_TYPE_KERNEL}
        after = {n: EARLY if early and n in kernels else edge for n, edge in self.tail.items()}
        made = self.add(Node(TYPES.CU_GRAPH_NODE_TYPE_KERNEL, self.capture[1], after, work))
        self.tail = {made: 0}

    def set_handle(self, handle: int, value: int) -> None:
        """What a kernel calls."""
        assert handle in self.handles, "no such handle"
        self.values[handle] = value

    def break_capture(self) -> None:
        """A call that must not be made under capture."""
        self.broken = True
        raise RuntimeError("CUDA error: operation not permitted when stream is capturing\nand more")

    # Graphs.

    def add(self, node: Node) -> int:
        assert all(n in self.graphs[node.graph] for n in node.after), "an edge leaves its graph"
        made = next(self.ids)
        self.nodes[made] = node
        self.graphs[node.graph].append(made)
        return made

    def cuDriverGetVersion(self):
        return OK, self.version

    def cuCtxGetCurrent(self):
        return OK, real.CUcontext(CONTEXT)

    def cuGraphCreate(self, flags):
        assert flags == 0
        made = next(self.ids)
        self.graphs[made] = []
        return OK, real.CUgraph(made)

    def cuStreamBeginCaptureToGraph(self, stream, graph, nodes, edges, count, mode):
        assert mode == real.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED
        assert self.capture is None, "the stream is capturing"
        assert int(graph) in self.graphs
        self.capture, self.broken = (stream, int(graph)), False
        self.tail = self._after(nodes, edges, count)
        return (OK,)

    def cuStreamGetCaptureInfo(self, stream):
        assert self.capture is not None
        assert self.capture[0] == stream
        if self.broken:
            broken = STATUS.CU_STREAM_CAPTURE_STATUS_INVALIDATED
            return OK, broken, real.cuuint64_t(1), real.CUgraph(0), [], [], 0
        nodes = [real.CUgraphNode(n) for n in self.tail]
        edges = [self._edge(kind) for kind in self.tail.values()]
        graph = real.CUgraph(self.capture[1])
        active = STATUS.CU_STREAM_CAPTURE_STATUS_ACTIVE
        return OK, active, real.cuuint64_t(1), graph, nodes, edges, len(nodes)

    def cuStreamIsCapturing(self, stream):
        if self.capture is None:
            return OK, STATUS.CU_STREAM_CAPTURE_STATUS_NONE
        if self.broken:
            return OK, STATUS.CU_STREAM_CAPTURE_STATUS_INVALIDATED
        return OK, STATUS.CU_STREAM_CAPTURE_STATUS_ACTIVE

    def cuStreamEndCapture(self, stream):
        assert self.capture is not None
        assert self.capture[0] == stream
        graph, self.capture = self.capture[1], None
        if self.broken:
            return real.CUresult.CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, real.CUgraph(0)
        return OK, real.CUgraph(graph)

    def cuGraphConditionalHandleCreate(self, graph, context, default, flags):
        assert int(context) == CONTEXT
        assert (default, flags) == (0, real.CU_GRAPH_COND_ASSIGN_DEFAULT)
        made = next(self.ids)
        self.handles[made] = int(graph)
        return OK, real.CUgraphConditionalHandle(made)

    def cuGraphAddNode(self, graph, nodes, edges, count, parameters):
        assert self.capture is None
        p = parameters.conditional
        handle, size = int(p.handle), p.size
        assert parameters.type == TYPES.CU_GRAPH_NODE_TYPE_CONDITIONAL
        assert int(p.ctx) == CONTEXT
        if self.handles.get(handle) != int(graph) or size < 1:
            return INVALID, None
        assert not any(n.handle == handle for n in self.nodes.values()), "a handle serves one node"
        loops = p.type == real.CUgraphConditionalNodeType.CU_GRAPH_COND_TYPE_WHILE
        assert loops or p.type == real.CUgraphConditionalNodeType.CU_GRAPH_COND_TYPE_SWITCH
        assert not loops or size == 1
        bodies = [int(self.cuGraphCreate(0)[1]) for _ in range(size)]
        array = (ctypes.c_void_p * size)(*bodies)
        ctypes.c_void_p.from_address(parameters.getPtr() + OUT).value = ctypes.addressof(array)
        kind, after = TYPES.CU_GRAPH_NODE_TYPE_CONDITIONAL, self._after(nodes, edges, count)
        made = self.add(Node(kind, int(graph), after, None, handle, loops, bodies, array))
        return OK, real.CUgraphNode(made)

    def cuGraphAddEmptyNode(self, graph, nodes, count):
        after = self._after(nodes, None, count)
        return OK, real.CUgraphNode(
            self.add(Node(TYPES.CU_GRAPH_NODE_TYPE_EMPTY, int(graph), after))
        )

    def cuGraphGetNodes(self, graph, room=0):
        found = self.graphs[int(graph)]
        return OK, [real.CUgraphNode(n) for n in found[:room]], len(found)

    def cuGraphNodeGetType(self, node):
        return OK, self.nodes[int(node)].kind

    def cuGraphGetEdges(self, graph, room=0):
        found = [
            (real.CUgraphNode(a), real.CUgraphNode(n), self._edge(kind))
            for n in self.graphs[int(graph)]
            for a, kind in self.nodes[n].after.items()
        ]
        some = found[:room]
        return (
            OK,
            [a for a, _, _ in some],
            [b for _, b, _ in some],
            [e for *_, e in some],
            len(found),
        )

    def cuGraphInstantiate(self, graph, flags):
        assert flags == 0
        used = {n.handle for n in self.nodes.values()}
        if set(self.handles) - used:
            return INVALID, None
        made = next(self.ids)
        self.launchable[made] = int(graph)
        return OK, real.CUgraphExec(made)

    def cuGraphUpload(self, made, stream):
        assert int(made) in self.launchable
        return (OK,)

    def cuGraphLaunch(self, made, stream):
        if int(made) not in self.launchable:
            return (INVALID,)
        self.values = dict.fromkeys(self.handles, 0)
        self._run(self.launchable[int(made)])
        return (OK,)

    def cuGraphDestroy(self, graph):
        return (OK,)

    def cuGraphExecDestroy(self, made):
        del self.launchable[int(made)]
        return (OK,)

    def _after(self, nodes, edges, count):
        assert len(nodes or ()) == count
        kinds = [e.type for e in edges] if edges else [0] * count
        assert len(kinds) == count
        return {int(n): kind for n, kind in zip(nodes or (), kinds, strict=True)}

    def _edge(self, kind):
        edge = real.CUgraphEdgeData()
        edge.type, edge.from_port = kind, PORT if kind == EARLY else 0
        return edge

    def _run(self, graph):
        """Nodes in the order that they were added in; they must be one chain."""
        before = None
        for n in self.graphs[graph]:
            node = self.nodes[n]
            assert list(node.after) == ([] if before is None else [before]), "not one chain"
            before = n
            if node.work is not None:
                node.work()
            elif node.loops:
                while self.values[node.handle]:
                    self._run(node.bodies[0])
            elif node.bodies and self.values[node.handle] < len(node.bodies):
                self._run(node.bodies[self.values[node.handle]])


class Arms:
    """In place of the arming kernels."""

    def __init__(self, driver: Driver):
        self.driver = driver

    def switch(self, handle, index, bodies, damaged):
        self.driver.launch(partial(arm_switch, self.driver, handle, index, bodies, damaged))

    def loop(self, handle, going):
        self.driver.launch(lambda: self.driver.set_handle(handle, int(going != 0)))


def arm_switch(driver, handle, index, bodies, damaged):
    """What `arm.cuh` does."""
    within = 0 <= int(index) < bodies
    if not within:
        damaged.fill_(1)
    driver.set_handle(handle, int(index) if within else bodies - 1)
