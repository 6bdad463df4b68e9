"""A model and its drafter as the command line names them, and the engine that runs them."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from hybridspec.errors import RequestError

if TYPE_CHECKING:
    from hybridspec.engine import Engine

EMBEDDED = "embedded"


@dataclass(frozen=True, slots=True)
class Pair:
    """What was asked for: folders or Hub ids, and revisions of the latter. None: the embedded pair.

    Raises:
        RequestError: a revision of what has none.
    """

    model: str | None = None
    draft: str | None = None
    revision: str | None = None
    draft_revision: str | None = None

    def __post_init__(self) -> None:
        named = (("", self.model, self.revision), ("draft-", self.draft, self.draft_revision))
        for flag, source, revision in named:
            if revision is not None and (source is None or Path(source).is_dir()):
                place = "the embedded pair" if source is None else f"the folder {source}"
                raise RequestError(
                    f"--{flag}revision is {revision!r}, but {place} has no revisions; leave it out "
                    "or name a Hub id."
                )

    @property
    def names(self) -> tuple[str, str | None]:
        """The target and the drafter, as they were named; no drafter is None."""
        without = EMBEDDED if self.model is None else None
        return self.model or EMBEDDED, self.draft or without


def load_engine(
    pair: Pair, *, system: str | None, device: str, dtype: str, max_context: int | None
) -> Engine:
    """The engine of a pair. What costs little is checked before the weights are read.

    Raises:
        HybridSpecError: a checkpoint, an option or a decoding system that cannot be used.
    """
    from hybridspec import assets
    from hybridspec.checkpoint import resolve
    from hybridspec.engine import Engine

    draft: str | Path | None = pair.draft
    if pair.model is None and draft is None:
        draft = assets.DRAFTER
    drafter = None if draft is None else resolve(draft, pair.draft_revision)
    if system is not None:
        _check_system(system, drafter)
    target = resolve(assets.TARGET if pair.model is None else pair.model, pair.revision)
    progress = None if sys.stderr is not None else False  # a bar needs a place to be drawn
    return Engine.load(
        target, drafter, device=device, dtype=dtype, max_context=max_context, progress=progress
    )


def _check_system(system: str, drafter: Path | None) -> None:
    from hybridspec.checkpoint import read_drafter_config
    from hybridspec.systems import parse_system

    parse_system(system, None if drafter is None else read_drafter_config(drafter).block_size)
