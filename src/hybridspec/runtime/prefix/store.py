"""Kept beginnings of prompts and answers as a tree, bounded in bytes.

A node holds the cache rows of its tokens, which follow its parent's, and perhaps the state behind
them; so what conversations share is held once. When memory is short, what was used longest ago
goes: first the state of a node, then, if nothing goes on from it, the node.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field

from hybridspec.runtime.prefix.parts import Point, Rows


@dataclass(slots=True, eq=False)
class Node:
    """Tokens [start, stop) behind the parent's.

    Attributes:
        exact: all passes so far were cut as any prompt with these tokens is (`cuts.py`).
        drafted: the rows have a drafter's part.
        point: the state at `stop`; None where it was dropped, and at the root.
        used: when it was last used; larger is later.
    """

    parent: Node | None
    tokens: array[int]
    stop: int
    exact: bool
    drafted: bool
    rows: Rows | None = None
    point: Point | None = None
    used: int = 0
    children: list[Node] = field(default_factory=list)

    @property
    def start(self) -> int:
        """The position of its first token."""
        return self.stop - len(self.tokens)

    @property
    def nbytes(self) -> int:
        """Bytes held, tokens included."""
        tensors = sum(part.nbytes for part in (self.rows, self.point) if part is not None)
        return tensors + len(self.tokens) * self.tokens.itemsize

    def path(self) -> list[Node]:
        """The nodes from behind the root to this one."""
        nodes: list[Node] = []
        node: Node | None = self
        while node is not None and node.parent is not None:
            nodes.append(node)
            node = node.parent
        return nodes[::-1]


class Store:
    """A tree of nodes that never holds more than `limit` bytes."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.root = Node(None, tokens_of(()), 0, exact=True, drafted=True)
        self._clock = self._sum = 0

    @property
    def nbytes(self) -> int:
        """Bytes held, added up anew."""
        return sum(node.nbytes for node in self.nodes())

    def nodes(self) -> Iterator[Node]:
        """All nodes but the root, parents first."""
        waiting = list(self.root.children)
        while waiting:
            node = waiting.pop()
            yield node
            waiting += node.children

    def find(self, ids: Sequence[int], at: Collection[int] | None, *, drafted: bool) -> Node | None:
        """The longest kept beginning of a prompt that leaves at least a token of it to run.

        Args:
            ids: the prompt.
            at: positions where an exact state may be taken; None takes any state anywhere.
            drafted: whether it must have a drafter's part.
        """
        self._sum = self.nbytes  # an interrupt may have come between a change and its sum
        prompt, best = tokens_of(ids), self.root
        waiting = [self.root]
        while waiting:
            node = waiting.pop()
            fits = node.point is not None and (at is None or (node.exact and node.stop in at))
            if fits and node.stop > best.stop:
                best = node
            waiting += [
                child
                for child in node.children
                if (child.drafted or not drafted)
                and child.stop < len(prompt)
                and prompt[child.start : child.stop] == child.tokens
            ]
        if best is self.root:
            return None
        self._touch(best)
        return best

    def add(
        self,
        parent: Node,
        tokens: Sequence[int],
        sizes: tuple[int, int],
        copies: tuple[Callable[[], Rows], Callable[[], Point]],
        *,
        exact: bool,
        drafted: bool,
    ) -> Node | None:
        """Keep what follows a node, and the state behind it.

        Args:
            sizes, copies: bytes of the rows and of the state, and what makes them.

        Returns:
            Its node, or None where there is no room for it.
        """
        segment, wanted = tokens_of(tokens), (exact, drafted)
        alike = (c for c in parent.children if (c.exact, c.drafted) == wanted)
        node = next((c for c in alike if c.tokens == segment), None)
        if node is None:
            if not self._make_room(sum(sizes) + segment.itemsize * len(segment), parent):
                return None
            made = Node(parent, segment, parent.stop + len(segment), *wanted)
            made.rows, made.point = copies[0](), copies[1]()
            parent.children.append(made)  # whole: nothing that failed before leaves a trace
            self._sum += made.nbytes
            node = made
        elif node.point is None:
            if not self._make_room(sizes[1], node):
                return None
            node.point = copies[1]()
            self._sum += node.point.nbytes
        self._touch(node)
        return node

    def clear(self) -> None:
        """Forget everything."""
        self.root.children.clear()
        self._sum = 0

    def _touch(self, node: Node) -> None:
        self._clock += 1
        node.used = self._clock

    def _make_room(self, wanted: int, ahead: Node) -> bool:
        """Drop what was used longest ago until so many bytes more fit, and say whether they do. The
        nodes up to `ahead` stay, though their states may go."""
        held = {id(node) for node in ahead.path()}
        rows = sum(node.nbytes - _bytes(node.point) for node in ahead.path())
        if rows + wanted > self.limit:
            return False  # it would not fit beside the rows before it: drop nothing for that
        while self._sum + wanted > self.limit:
            droppable = (
                node
                for node in self.nodes()
                if node.point is not None or not (node.children or id(node) in held)
            )
            self._drop(min(droppable, key=lambda node: node.used), held)
        return True

    def _drop(self, node: Node, held: Collection[int]) -> None:
        self._sum -= _bytes(node.point)
        node.point = None
        if not node.children and id(node) not in held:
            assert node.parent is not None
            self._sum -= node.nbytes
            node.parent.children.remove(node)


def tokens_of(ids: Sequence[int]) -> array[int]:
    """Token ids, 8 bytes each."""
    return array("q", ids)


def _bytes(point: Point | None) -> int:
    return 0 if point is None else point.nbytes
