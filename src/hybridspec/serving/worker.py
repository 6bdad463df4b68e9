"""The one thread that owns the engine: it loads it and gives it to one turn after another."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Any, TypeVar

from hybridspec.engine import Engine
from hybridspec.errors import HybridSpecError
from hybridspec.serving.errors import ApiError, shutting_down
from hybridspec.serving.line import Line
from hybridspec.serving.metrics import Metrics
from hybridspec.serving.turns import Turn

logger = logging.getLogger("hybridspec.serving")
T = TypeVar("T", bound=Turn[Any])
RETRY = {"Retry-After": "1"}
DEFECTS = 3  # in a row, and the server calls itself ill


class Worker:
    """Serves turns until it is stopped."""

    def __init__(self, load: Callable[[], Engine], metrics: Metrics, most: int) -> None:
        """Nothing runs before `start`.

        Args:
            load: gives the engine; called once, on the worker's thread.
            metrics: counts.
            most: turns that may wait.
        """
        self._load, self._metrics = load, metrics
        self._line: Line[Turn[Any]] = Line(most)
        self._thread = threading.Thread(target=self._work, name="engine", daemon=True)
        self._engine: Engine | None = None
        self._running: Turn[Any] | None = None
        self._defects, self._stopped = 0, False
        self.failure: BaseException | None = None
        self.on_loaded: Callable[[BaseException | None], None] | None = None
        metrics.watch(self._line.__len__, lambda: int(self._running is not None))

    def start(self) -> None:
        """Begin to load, and then to serve."""
        self._thread.start()

    def stop(self) -> None:
        """Serve nobody any more; whoever waited is told. Returns once the engine is at rest."""
        self._stopped = True
        for turn in self._line.close():
            turn.fail(shutting_down())
        running = self._running
        if running is not None:
            running.cancel()
        if self._engine is not None:  # else it is still loading: the process need not wait
            self._thread.join()

    @property
    def state(self) -> str:
        """`loading`, `ok`, or `failing`: loading or the last turns in a row failed, or nobody is
        there any more to serve."""
        dead = self._thread.ident is not None and not self._thread.is_alive()
        if dead or self.failure is not None or self._defects >= DEFECTS:
            return "failing"
        return "loading" if self._engine is None else "ok"

    @property
    def engine(self) -> Engine:
        """The engine, for what needs no turn: its tokenizer, its limits.

        Raises:
            ApiError: it is not loaded.
        """
        if self._engine is None:
            raise ApiError(
                503, "The model is still loading. Try again.", code="loading", headers=RETRY
            )
        return self._engine

    def submit(self, turn: T, *, again: bool = False) -> T:
        """Put a turn in the line.

        Args:
            turn: what is to be done.
            again: its request has had a turn already, and is not refused.

        Raises:
            ApiError: too many wait, or the server is shutting down.
        """
        if self._line.add(turn, again=again):
            return turn
        if self._stopped:
            raise shutting_down()
        said = f"{len(self._line)} requests wait already, which is the most. Try again later."
        raise ApiError(503, said, code="overloaded", headers=RETRY)

    def give_up(self, turn: Turn[Any]) -> None:
        """Nobody waits for it any more, wherever it is."""
        turn.cancel()
        self._line.leave(turn)

    def _work(self) -> None:
        try:
            self._engine = self._load()
        except BaseException as error:
            self.failure = error
        self._tell_loaded()
        while self.failure is None and (turn := self._line.take()) is not None:
            if not turn.cancelled:
                self._serve(turn)

    def _tell_loaded(self) -> None:
        """Whoever is told may fail, as where nobody reads standard output; this thread may not."""
        try:
            if self.on_loaded is not None:
                self.on_loaded(self.failure)
        except Exception as error:
            said = "That the model is loaded could not be told (%s); requests are served."
            logger.warning(said, str(error) or type(error).__name__)

    def _serve(self, turn: Turn[Any]) -> None:
        self._running = turn
        if self._stopped:  # after it had left the line and before it could be seen here
            turn.cancel()
        try:
            outcome = turn.run(self.engine, self._metrics)
        except BaseException as error:
            self._running = None
            self._defects += not isinstance(error, HybridSpecError)
            turn.fail(shutting_down() if self._stopped and turn.cancelled else error)
        else:
            self._running, self._defects = None, 0
            turn.succeed(outcome)
