"""The one way to read JSON that came with a checkpoint: whatever is in it, no traceback."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from hybridspec.errors import CheckpointError, said_by

MOST_SHOWN = 200  # characters of a value in a sentence
MOST_NESTED = 100  # levels; checkpoints have six, and Python's own functions give up near 1000


def read_json(path: Path) -> dict[str, object]:
    """Reads a JSON object.

    Raises:
        CheckpointError: the file cannot be read, is not JSON, or holds no object.
    """
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except RecursionError:
        raise _too_deep(path) from None
    except (OSError, ValueError) as error:
        raise CheckpointError(
            f"{path} cannot be read as JSON: {said_by(error)}. Download it again."
        ) from None
    if not isinstance(data, dict):
        raise CheckpointError(
            f"{path} holds a JSON {type(data).__name__}; expected an object. Download it again."
        )
    if _depth_above(data, MOST_NESTED):
        raise _too_deep(path)
    return data


def shown(value: object) -> str:
    """A value as JSON, for a sentence: cut where it is long."""
    text = json.dumps(value)
    return text if len(text) <= MOST_SHOWN else f"{text[:MOST_SHOWN]}..."


def _depth_above(data: object, most: int) -> bool:
    level: list[Any] = [data]
    for _ in range(most):
        inner = (node.values() if isinstance(node, dict) else node for node in level)
        level = [child for nodes in inner for child in nodes if isinstance(child, dict | list)]
        if not level:
            return False
    return True


def _too_deep(path: Path) -> CheckpointError:
    return CheckpointError(
        f"{path} cannot be read as JSON: its brackets are nested too deeply. Download it again."
    )
