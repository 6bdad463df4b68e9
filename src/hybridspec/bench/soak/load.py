"""Many clients at once, each answer compared with the one that the same request had alone."""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from http.client import HTTPException
from typing import Any

from hybridspec.bench.soak.asks import SYSTEMS, WRONG, Ask, Wrong
from hybridspec.bench.soak.client import Answer, Client, Refused

LEAVES, ERRS = 0.25, 0.08  # shares of the requests
MOST_SHOWN = 20


@dataclass(slots=True)
class Tally:
    """How requests ended.

    Attributes:
        counts: by kind: `answered`, `streamed`, `left`, `refused`.
        faults: what should not have been, in words; the first few.
        failed: how many there were.
    """

    counts: Counter[str] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)
    failed: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def count(self, kind: str) -> None:
        """One more of a kind."""
        with self._lock:
            self.counts[kind] += 1

    def fault(self, said: str) -> None:
        """Something that should not have been."""
        with self._lock:
            self.failed += 1
            if len(self.faults) < MOST_SHOWN:
                self.faults.append(said)

    @property
    def requests(self) -> int:
        """All that were sent."""
        return sum(self.counts.values())


@dataclass(frozen=True, slots=True)
class Known:
    """A request and the answer that it has alone."""

    ask: Ask
    answer: Answer


def alone(host: str, port: int, asks: Sequence[Ask], system: str = "ar") -> list[Known]:
    """Ask one after the other, for what each request is answered when there is no other.

    Args:
        host, port: of a server at rest.
        asks: the requests.
        system: the decoding system; every system gives the same answers.
    """
    with Client(host, port) as client:
        return [Known(ask, client.whole(ask, system=system)) for ask in asks]


class Load:
    """Clients in threads. What request number i asks, and how it ends, is drawn from i alone."""

    def __init__(self, host: str, port: int, known: Sequence[Known], seed: int) -> None:
        """Ask a server.

        Args:
            host, port: of the server.
            known: what to ask, with the answers.
            seed: of what is drawn.
        """
        self._place, self._known, self._seed = (host, port), known, seed
        self._lock = threading.Lock()
        self.tally = Tally()

    def run(self, clients: int, numbers: Iterable[int]) -> Tally:
        """Send the requests of these numbers from so many clients, and see all of them end.

        Args:
            clients: at once; each takes the next number when it is done with one.
            numbers: perhaps without an end that is known before.
        """
        left = iter(numbers)
        threads = [
            threading.Thread(target=self._client, args=(left,), daemon=True) for _ in range(clients)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return self.tally

    def _client(self, left: Iterator[int]) -> None:
        with Client(*self._place) as client:
            while (number := self._next(left)) is not None:
                draw = random.Random(f"{self._seed} {number}")
                try:
                    self.tally.count(self._visit(client, draw, f"client {draw.randrange(8)}"))
                except (OSError, HTTPException, Refused, ValueError, KeyError) as error:
                    self.tally.count("failed")
                    self.tally.fault(f"{type(error).__name__}: {error}")
                    client.leave(reset=False)

    def _next(self, left: Iterator[int]) -> int | None:
        with self._lock:
            return next(left, None)

    def _visit(self, client: Client, draw: random.Random, user: str) -> str:
        """One request, and how it ended."""
        kind = draw.random()
        if kind < ERRS:
            return self._err(client, draw.choice(WRONG))
        known = draw.choice(self._known)
        more: dict[str, Any] = {"user": user}
        if (system := draw.choice(SYSTEMS)) is not None:
            more["system"] = system
        if kind < ERRS + LEAVES:
            return self._leave(client, draw, known, more)
        if draw.random() < 0.5:
            self._compare(known, client.whole(known.ask, **more), more)
            return "answered"
        self._compare(known, client.stream(known.ask, **more), more)
        return "streamed"

    def _err(self, client: Client, wrong: Wrong) -> str:
        try:
            client.post(wrong.path, wrong.data).read()
        except Refused as refused:
            if refused.status == wrong.status:
                return "refused"
            self.tally.fault(f"{wrong.data[:80]!r} is refused with {refused}, not {wrong.status}")
        else:
            self.tally.fault(f"{wrong.data[:80]!r} was served")
        return "refused"

    def _leave(
        self, client: Client, draw: random.Random, known: Known, more: dict[str, Any]
    ) -> str:
        if draw.random() < 0.5:
            said = client.stream(known.ask, most=draw.randrange(6), **more)
            self._compare(known, said, more, left=True)
        else:
            client.unread(known.ask, draw.random() * 0.5, **more)
        client.leave(reset=draw.random() < 0.5)
        return "left"

    def _compare(
        self, known: Known, found: Answer, more: dict[str, Any], *, left: bool = False
    ) -> None:
        pairs = zip(found, known.answer, strict=False)
        whole = left or (len(found) == len(known.answer) and all(c.finish for c in found))
        if not (whole and all(choice.begins(wanted) for choice, wanted in pairs)):
            self.tally.fault(
                f"{known.ask.path} {known.ask.body} with {more}: {found}, alone {known.answer}"
            )
