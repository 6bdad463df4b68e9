"""The parts, in order: a name, and the module here and function that it is.

A function takes a `Board` and gives what the document holds of it. `startup` stands first, for what
it times is done once a process. Importing this imports no torch.
"""

from __future__ import annotations

PARTS: dict[str, str] = {
    "launchers": "rounds.launchers",
    "verifiers": "rounds.verifiers",
    "gaps": "gaps.gaps",
}
