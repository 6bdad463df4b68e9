"""Which target and which drafter a user means, and where they are."""

from __future__ import annotations

from pathlib import Path

from hybridspec import assets
from hybridspec.checkpoint.source import local_folder, resolve
from hybridspec.checks import expect, is_unicode
from hybridspec.errors import CheckpointError, OptionError

Source = str | Path | None


def find_pair(
    model: Source = None,
    draft: Source = None,
    revision: str | None = None,
    draft_revision: str | None = None,
) -> tuple[Path, Path | None]:
    """The folders of a target and of its drafter, downloaded if need be.

    Args:
        model: target folder or `owner/name` on the Hub; None is the embedded pair's.
        draft: drafter folder or `owner/name`; None is no drafter, but without `model` the
            embedded pair's.
        revision, draft_revision: branch, tag or commit of a Hub id.

    Raises:
        CheckpointError: nothing there, nothing in it, or the Hub does not serve it.
        OptionError: another type, or a revision of what has none.
    """
    embedded = "the embedded pair has no revisions"
    _check("model", model, "revision", revision, embedded)
    alone = embedded if model is None else "no drafter is named"
    _check("draft", draft, "draft_revision", draft_revision, alone)
    if model is None and draft is None:
        draft = assets.DRAFTER
    drafter = None if draft is None else _drafter(draft, draft_revision)
    return resolve(assets.TARGET if model is None else model, revision), drafter


def _check(
    name: str, source: Source, revision_name: str, revision: str | None, without_source: str
) -> None:
    """Refuse what is no source, and a revision that would be read over in silence."""
    holds = source is None or isinstance(source, str | Path)
    expect(holds, name, source, "a folder or a Hub id such as owner/name")
    if revision is None:
        return
    holds = isinstance(revision, str) and revision != "" and is_unicode(revision)
    expect(holds, revision_name, revision, "a branch, tag or commit")
    if source is None or local_folder(str(source)) is not None:
        reason = without_source if source is None else f"the folder {source} has no revisions"
        raise OptionError(
            revision_name, f"is {revision!r}, but {reason}; leave it out or name a Hub id."
        )


def _drafter(draft: str | Path, revision: str | None) -> Path:
    try:
        return resolve(draft, revision)
    except CheckpointError as error:
        raise CheckpointError(f"The drafter cannot be used: {error}") from None
