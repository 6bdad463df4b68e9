"""Where a checkpoint is: a folder, or a Hub id served by huggingface_hub's own cache.

The Hub's variables keep their meaning: HF_HOME, HF_HUB_OFFLINE, HF_TOKEN, HF_ENDPOINT.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Literal

from hybridspec.errors import CheckpointError, said_by

# What the engine reads: settings, weights, the tokenizer and its chat template.
WANTED = ["*.json", "*.safetensors", "*.jinja", "merges.txt", "tokenizer.model"]
HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")


def resolve(source: str | Path, revision: str | None = None) -> Path:
    """The local folder of a checkpoint, downloaded if need be.

    Args:
        source: a folder, or `owner/name` on the Hub. A folder that exists wins.
        revision: branch, tag or commit on the Hub.

    Raises:
        CheckpointError: nothing there, nothing in it, or the Hub does not serve it.
    """
    text = str(source)
    folder = local_folder(text)
    if folder is None and isinstance(source, str) and HUB_ID.fullmatch(text):
        folder = download(text, revision)
    if folder is None:
        raise CheckpointError(
            f"There is no checkpoint at {text!r}; expected a folder with config.json and "
            "*.safetensors, or a Hub id such as owner/name."
        )
    return folder


def local_folder(text: str) -> Path | None:
    """The folder that a path names, if there is one; refuses a file and an empty folder."""
    try:
        path = Path(text).expanduser()
        if path.is_file():
            raise CheckpointError(
                f"{text} is a file; expected the checkpoint folder that holds config.json and "
                "*.safetensors."
            )
        if not text or not path.is_dir():
            return None
        if not any(path.iterdir()):
            raise CheckpointError(
                f"The folder {text} is empty; expected config.json and *.safetensors files."
            )
    except (OSError, RuntimeError) as error:  # no permission, an impossible path, no such user
        raise CheckpointError(f"{text} cannot be read: {said_by(error)}.") from None
    return path


def download(
    repo: str,
    revision: str | None = None,
    wanted: Sequence[str] = WANTED,
    kind: Literal["model", "dataset"] = "model",
) -> Path:
    """The local folder of a repository's files that match `wanted`, from the Hub or its cache.

    Raises:
        CheckpointError: the Hub does not serve it, or cannot be reached.
    """
    import httpx  # both take half a second to import and a folder needs neither
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HFValidationError, LocalEntryNotFoundError

    def fetch(local: bool) -> Path:
        return Path(
            snapshot_download(
                repo,
                repo_type=kind,
                revision=revision,
                allow_patterns=list(wanted),
                local_files_only=local,
            )
        )

    try:
        return fetch(local=False)
    except (OSError, httpx.HTTPError, HFValidationError) as error:
        said = _hub_answer(error, repo, revision)
        if said is None:
            # A commit asked for by its hash is looked up in the cache only when told so.
            with suppress(LocalEntryNotFoundError):
                return fetch(local=True)
        raise CheckpointError(said or _cache_answer(error, repo, revision)) from None


def _hub_answer(error: Exception, repo: str, revision: str | None) -> str | None:
    """The sentence when the Hub was reached and said no. Subclasses come before their bases."""
    from huggingface_hub import errors

    if isinstance(error, errors.GatedRepoError):
        return (
            f"{repo} is gated: accept its terms on its Hub page and set HF_TOKEN to a token that "
            "may read it."
        )
    if isinstance(error, errors.RepositoryNotFoundError):
        return (
            f"There is neither a folder {repo!r} here nor a repository of that name on the Hub "
            "that this user may read; check the name, or set HF_TOKEN if it is private."
        )
    if isinstance(error, errors.RevisionNotFoundError):
        return f"{repo} has no revision {revision!r} on the Hub; expected a branch, tag or commit."
    if isinstance(error, errors.HfHubHTTPError) and error.response.status_code in (401, 403):
        return (
            f"The Hub does not show {repo} to this user; set HF_TOKEN to a token that may read it."
        )
    if isinstance(error, errors.HfHubHTTPError):
        return f"The Hub did not serve {repo}: {said_by(error)}. Try again later."
    if isinstance(error, errors.HFValidationError):
        return f"{repo!r} is not a valid Hub id: {said_by(error)}."
    return None


def _cache_answer(error: Exception, repo: str, revision: str | None) -> str:
    """The sentence when the Hub was not reached, or its files could not be kept."""
    from huggingface_hub import constants, errors

    named = f"{repo} (revision {revision})" if revision else repo
    cache = constants.HF_HUB_CACHE
    if isinstance(error, errors.IncompleteSnapshotError):
        return f"The download of {named} in {cache} is incomplete; run again with network access."
    absent = f"There is no folder {repo!r} here, {named} is not in the Hub cache {cache}, and"
    if isinstance(error, errors.OfflineModeIsEnabled) or constants.is_offline_mode():
        return f"{absent} HF_HUB_OFFLINE forbids a download; download it first or unset it."
    unreachable = isinstance(error, errors.LocalEntryNotFoundError | ConnectionError)
    if unreachable or not isinstance(error, OSError):
        return f"{absent} the Hub cannot be reached; check the path, or the network and try again."
    return f"{named} cannot be stored in the Hub cache {cache}: {said_by(error)}."
