"""Short runs of tags, spaces and names, recognised whole or by their beginning.

Python's regular expressions cannot say whether a text might still become a match; here every form
is a row of atoms, so its beginnings are a pattern too. Spaces and names are bounded, and so is what
is held back.
"""

from __future__ import annotations

import re

SPACE, NAME, NEWLINE = r"\s{0,64}", r"([^<>\n]{1,256})", r"\n?"
LONGEST = 512  # characters of a form and what follows it, and more


class Form:
    """A row of literals and of the patterns above, perhaps followed by one of other rows."""

    def __init__(self, *row: str, followed_by: tuple[tuple[str, ...], ...] = ((),)) -> None:
        """Take the row that a match consists of, and what must stand after it."""
        head = _atoms(row)
        tails = [_atoms(tail) for tail in followed_by]
        ahead = "|".join("".join(tail) for tail in tails)
        self._whole = re.compile(f"{''.join(head)}(?={ahead})")
        self._begun = [re.compile(_beginnings([*head, *tail])) for tail in tails]

    def match(self, text: str) -> re.Match[str] | None:
        """The form where the text begins; its groups are the names."""
        return self._whole.match(text)

    def search(self, text: str) -> re.Match[str] | None:
        """The first place of the form."""
        return self._whole.search(text)

    def begun(self, text: str, at: int = 0) -> bool:
        """Whether the text from a place on is the beginning of the form, or nothing."""
        return any(pattern.fullmatch(text, at) for pattern in self._begun)

    def held(self, text: str) -> int:
        """Where the end of the text begins that may become the form; its length if none does.

        For forms that begin with a tag or a line end.
        """
        places = range(max(0, len(text) - LONGEST), len(text))
        held = (at for at in places if text[at] in "\n<" and self.begun(text, at))
        return next(held, len(text))


def _atoms(row: tuple[str, ...]) -> list[str]:
    patterns = (SPACE, NAME, NEWLINE)
    return [atom for part in row for atom in ([part] if part in patterns else map(re.escape, part))]


def _beginnings(atoms: list[str]) -> str:
    return "".join(f"(?:{atom}" for atom in atoms) + ")?" * len(atoms)
