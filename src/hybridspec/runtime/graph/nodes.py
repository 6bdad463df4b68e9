"""The CUDA graph API through cuda-bindings: the one module of the project that calls it.

`README.md` says what must be known of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias

from cuda.bindings import driver  # type: ignore[import-untyped]

from hybridspec.errors import said_by
from hybridspec.runtime.graph.recorder import GraphError, Work

NEWEST_NEEDED = (12, 8)  # CUDA whose driver has SWITCH nodes
RELAXED = driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED
ACTIVE = driver.CUstreamCaptureStatus.CU_STREAM_CAPTURE_STATUS_ACTIVE
SWITCH = driver.CUgraphConditionalNodeType.CU_GRAPH_COND_TYPE_SWITCH
WHILE = driver.CUgraphConditionalNodeType.CU_GRAPH_COND_TYPE_WHILE
KERNEL = driver.CUgraphNodeType.CU_GRAPH_NODE_TYPE_KERNEL
EARLY = driver.CUgraphDependencyType.CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC

Graph: TypeAlias = driver.CUgraph
Launchable: TypeAlias = driver.CUgraphExec


class Tail(NamedTuple):
    """What the next node of a graph waits for, and how, node by node; without edges for all of
    each."""

    nodes: Sequence[driver.CUgraphNode] = ()
    edges: Sequence[driver.CUgraphEdgeData] = ()

    def passed(self) -> tuple[Any, Any, int]:
        """The three arguments that functions of the driver take for it."""
        return self.nodes, self.edges or None, len(self.nodes)

    def full(self) -> Tail:
        """The same nodes, each to its end."""
        return Tail(self.nodes)


def driver_version() -> tuple[int, int]:
    """The newest CUDA that the driver serves."""
    version = _answered("The driver's version", driver.cuDriverGetVersion())
    return version // 1000, version % 1000 // 10


def new_graph() -> Graph:
    """An empty one."""
    return _answered("A new graph", driver.cuGraphCreate(0))


def capture(stream: int, graph: Graph, after: Tail, work: Work, name: str) -> Tail:
    """Add the launches of work on a stream, which must be the current one, to a graph; what the
    next node waits for. name: the subject of a sentence.

    Whatever happens, the stream is out of capture afterwards.

    Raises:
        GraphError: work does what cannot be captured. Other errors of its own go through.
    """
    begun = driver.cuStreamBeginCaptureToGraph(stream, graph, *after.passed(), RELAXED)
    _answered(f"{name}, to be captured,", begun)
    try:
        work()
        end = _tail(stream, name)
    except BaseException as error:
        active = _is_active(stream)
        driver.cuStreamEndCapture(stream)
        if active or not isinstance(error, Exception):
            raise
        raise GraphError(f"{name} cannot be captured: {said_by(error)}.") from error
    _answered(f"{name}, captured,", driver.cuStreamEndCapture(stream))
    return end


def new_handle(graph: Graph) -> int:
    """A conditional handle for a node of this very graph, 0 at every launch until a kernel sets
    it. The caller must make that node: a handle without one cannot be instantiated."""
    context = _answered("The current context", driver.cuCtxGetCurrent())
    flag = driver.CU_GRAPH_COND_ASSIGN_DEFAULT
    made = driver.cuGraphConditionalHandleCreate(graph, context, 0, flag)
    return int(_answered("A conditional handle", made))


def add_conditional(
    graph: Graph, after: Tail, kind: driver.CUgraphConditionalNodeType, handle: int, size: int
) -> tuple[Tail, list[Graph]]:
    """A SWITCH of `size` bodies or a WHILE of one; what the next node waits for, and the empty
    bodies, which live as long as the graph."""
    parameters = driver.CUgraphNodeParams()
    parameters.type = driver.CUgraphNodeType.CU_GRAPH_NODE_TYPE_CONDITIONAL
    conditional = parameters.conditional
    conditional.handle = driver.CUgraphConditionalHandle(handle)
    conditional.type = kind
    conditional.size = size  # from here until the node is there, printing it would crash
    conditional.ctx = _answered("The current context", driver.cuCtxGetCurrent())
    made = driver.cuGraphAddNode(graph, *after.passed(), parameters)
    node = _answered(f"A conditional node of {size} bodies", made)
    return Tail((node,)), [driver.CUgraph(int(body)) for body in conditional.phGraph_out]


def add_empty(graph: Graph) -> Tail:
    """A first node that does nothing."""
    return Tail((_answered("An empty node", driver.cuGraphAddEmptyNode(graph, None, 0)),))


def count(graphs: Sequence[Graph]) -> tuple[int, int]:
    """Kernels, and programmatic edges between them."""
    kernels = early = 0
    for graph in graphs:
        _, size = _answered("A graph's nodes", driver.cuGraphGetNodes(graph))
        nodes, _ = _answered("A graph's nodes", driver.cuGraphGetNodes(graph, size))
        types = [_answered("A node's type", driver.cuGraphNodeGetType(node)) for node in nodes]
        kernels += types.count(KERNEL)
        *_, size = _answered("A graph's edges", driver.cuGraphGetEdges(graph))
        *_, edges, _ = _answered("A graph's edges", driver.cuGraphGetEdges(graph, size))
        early += sum(edge.type == EARLY.value for edge in edges)
    return kernels, early


def instantiate(graph: Graph, stream: int) -> Launchable:
    """What can be launched, with all the memory that it needs on the device. The graph itself may
    be destroyed then."""
    made = _answered("Instantiation of a graph", driver.cuGraphInstantiate(graph, 0))
    _answered("Upload of a graph", driver.cuGraphUpload(made, stream))
    return made


def launch(made: Launchable, stream: int) -> None:
    """Queue it on a stream."""
    _answered("Launch of a graph", driver.cuGraphLaunch(made, stream))


def destroy_graph(graph: Graph) -> None:
    """A graph and its bodies."""
    driver.cuGraphDestroy(graph)


def destroy(made: Launchable) -> None:
    """What was instantiated."""
    driver.cuGraphExecDestroy(made)


def _tail(stream: int, name: str) -> Tail:
    """What the next node of a stream under capture waits for, with the edges' data: a query without
    them is refused as soon as one is programmatic."""
    told = driver.cuStreamGetCaptureInfo(stream)
    status, _, _, nodes, edges, _ = _answered(f"{name}, captured,", told)
    if status != ACTIVE:
        raise GraphError("a call broke it without an error of its own")
    return Tail(nodes, edges)


def _is_active(stream: int) -> bool:
    """Whether a capture under way is still sound."""
    code, status = driver.cuStreamIsCapturing(stream)
    return not code.value and status == ACTIVE


def _answered(what: str, answer: tuple[Any, ...]) -> Any:
    """The values of a call, whose first part is an error code: one as it is, several as a tuple.

    Raises:
        GraphError: with the driver's name of the error.
    """
    code, *values = answer
    if code.value:
        raise GraphError(f"{what} is refused: the driver answered {code.name}.")
    return values[0] if len(values) == 1 else tuple(values)
