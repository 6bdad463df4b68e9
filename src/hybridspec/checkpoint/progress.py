"""A bar on stderr while weights load: on a terminal, or when asked for."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def progress_bar(
    title: str, total: int, show: bool | None = None
) -> Iterator[Callable[[int], None]]:
    """Yields a function to call with the bytes done since the last call.

    Args:
        title: what is being done.
        total: all bytes.
        show: None shows the bar only if stderr is a terminal.
    """
    if not (sys.stderr.isatty() if show is None else show):
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn())
    with Progress(*columns, TransferSpeedColumn(), console=Console(stderr=True)) as bar:
        task = bar.add_task(title, total=total)
        yield lambda done: bar.advance(task, done)
