"""How to install the package and its extras: no index has it, so from the project's folder."""

from __future__ import annotations


def install(extra: str = "") -> str:
    """The command that installs the package, with an extra where one is named, and where to run it.

    It stands within a sentence.
    """
    what = f'".[{extra}]"' if extra else "."
    return f"`pip install -c constraints.txt {what}` in the project's folder"
