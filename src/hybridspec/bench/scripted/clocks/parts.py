"""The parts, in order: a name, and the module here and function that it is.

A function takes a `Board` and gives what the document holds of it. `cold` and `startup` stand
first: what they time is done once a process. Importing this imports no torch.
"""

from __future__ import annotations

PARTS: dict[str, str] = {
    "cold": "startup.cold",
    "startup": "startup.start_up",
    "launchers": "rounds.launchers",
    "verifiers": "rounds.verifiers",
    "gaps": "gaps.gaps",
    "components": "components.components",
}
ON_REQUEST = ("cold",)  # minutes of compiling
