"""Who is next: clients take turns, and each is served in the order in which it came."""

from __future__ import annotations

import threading
from collections import OrderedDict, deque
from typing import Generic, Protocol, TypeVar


class Waiting(Protocol):
    """What can stand in line."""

    client: str

    @property
    def cancelled(self) -> bool:
        """Whether nobody waits for it any more."""


T = TypeVar("T", bound=Waiting)


class Line(Generic[T]):
    """A bounded line for one place. Many threads may add; one takes.

    A client with many requests delays another by one turn and not by all of them.
    """

    def __init__(self, most: int) -> None:
        """most: how many may wait."""
        self._most = most
        self._lanes: OrderedDict[str, deque[T]] = OrderedDict()
        self._changed = threading.Condition()
        self._closed = False

    def __len__(self) -> int:
        with self._changed:
            return sum(len(lane) for lane in self._lanes.values())

    def add(self, one: T, *, again: bool = False) -> bool:
        """Take a place at the end of the client's lane; False where the line is full or closed.

        Args:
            one: what waits.
            again: it goes on with what has had a turn already, and is not refused.
        """
        with self._changed:
            full = sum(len(lane) for lane in self._lanes.values()) >= self._most
            if self._closed or (full and not again):
                return False
            self._lanes.setdefault(one.client, deque()).append(one)
            self._changed.notify()
            return True

    def leave(self, one: T) -> None:
        """Give up a place; harmless for who has none."""
        with self._changed:
            lane = self._lanes.get(one.client)
            if lane is not None and one in lane:
                lane.remove(one)
                self._drop_empty(one.client)

    def take(self) -> T | None:
        """The next one; waits for it. None when the line is closed."""
        with self._changed:
            while not self._lanes and not self._closed:
                self._changed.wait()
            if self._closed:
                return None
            client, lane = next(iter(self._lanes.items()))
            one = lane.popleft()
            self._lanes.move_to_end(client)
            self._drop_empty(client)
            return one

    def close(self) -> list[T]:
        """End it; returns who still waited."""
        with self._changed:
            self._closed = True
            left = [one for lane in self._lanes.values() for one in lane]
            self._lanes.clear()
            self._changed.notify_all()
            return left

    def _drop_empty(self, client: str) -> None:
        if not self._lanes[client]:
            del self._lanes[client]
