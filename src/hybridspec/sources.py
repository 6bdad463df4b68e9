"""Which target and which drafter a user means, and where they are."""

from __future__ import annotations

from pathlib import Path

from hybridspec import assets
from hybridspec.checkpoint.source import HUB_ID, download, local_folder, resolve
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
    target = assets.TARGET if model is None else model
    drafter = None
    if draft is not None:
        try:
            drafter = resolve(draft, draft_revision)
        except CheckpointError as error:
            why = f"{_wrong(target, revision)}The drafter cannot be used: {error}"
            raise CheckpointError(why) from None
    return resolve(target, revision), drafter


def pair_name(model: Source, draft: Source) -> str:
    """A pair in a few words, as it was asked for."""
    if draft is None:
        return "the embedded pair" if model is None else str(model)
    return f"{'the embedded target' if model is None else model} with {draft}"


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


def _wrong(target: str | Path, revision: str | None) -> str:
    """What is wrong with a target whose drafter is refused, so that both are mended at once; the
    gigabytes of one that is there are not asked for."""
    try:
        if isinstance(target, str) and HUB_ID.fullmatch(target) and local_folder(target) is None:
            download(target, revision, wanted=["config.json"])
        else:
            resolve(target, revision)
    except CheckpointError as error:
        return f"The target cannot be used: {error} "
    return ""
