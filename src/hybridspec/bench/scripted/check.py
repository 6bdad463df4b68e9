"""Whether a scripted run did what it must have done: known tokens, and plain decoding's state.

The next token depends on the last one alone, so tokens would come out right with broken states too.
Therefore states are compared, and a run that commits wrongly on purpose must be found out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from hybridspec.bench.scripted.answers import Answer
from hybridspec.errors import HybridSpecError
from hybridspec.model.gdn import Verifier
from hybridspec.runtime.check import TOLERANCE


class ScriptError(HybridSpecError):
    """A scripted run that is wrong: none of its figures counts."""


@dataclass(frozen=True, eq=False)
class Expected:
    """The known continuation, and the state in which plain decoding ends."""

    tokens: tuple[int, ...]
    state: dict[str, Tensor]

    @classmethod
    def of(cls, known: Sequence[int], plain: Answer) -> Expected:
        """From plain decoding's answer, whose tokens are checked.

        Raises:
            ScriptError: they are others.
        """
        made = cls(tuple(known), {name: part.clone() for name, part in plain.state.items()})
        made.check_tokens("ar", plain)
        return made

    def check(self, system: str, verifier: Verifier, answer: Answer) -> None:
        """Tokens, then states: those of `exact` bit for bit, others' but for rounding.

        Raises:
            ScriptError: something differs.
        """
        self.check_tokens(system, answer)
        for name, part in self.state.items():
            self._check_part(system, name, answer.state[name], part, exact=verifier == "exact")

    def check_tokens(self, system: str, answer: Answer) -> None:
        """Raises ScriptError where a token is not the known one."""
        if answer.tokens == self.tokens:
            return
        pairs = zip(answer.tokens, self.tokens, strict=False)
        at = next((i for i, (a, b) in enumerate(pairs) if a != b), None)
        what = (
            f"token {at} is {answer.tokens[at]}; expected {self.tokens[at]}" if at is not None
            else f"there are {len(answer.tokens)} tokens; expected {len(self.tokens)}"
        )  # fmt: skip
        raise ScriptError(f"{system} did not emit the known continuation: {what}. {USELESS}")

    def _check_part(
        self, system: str, name: str, ours: Tensor, plain: Tensor, *, exact: bool
    ) -> None:
        if ours.shape != plain.shape:
            raise ScriptError(
                f"{system} committed {tuple(ours.shape)} {name}, ar {tuple(plain.shape)}. {USELESS}"
            )
        if torch.equal(ours, plain):
            return
        distance = float((ours - plain).float().norm() / plain.float().norm())
        most = TOLERANCE[plain.dtype]
        if exact or not distance <= most:
            count = int((ours != plain).sum())
            raise ScriptError(
                f"{system} ended with other {name} than ar: {count} of {plain.numel()} numbers "
                f"differ, by {distance:.1e} together; expected "
                f"{'the same bits' if exact else f'at most {most:.0e}'}. {USELESS}"
            )


USELESS = "The run is wrong, so none of its figures counts."


def check_control(expected: Expected, answer: Answer) -> str:
    """That a run which committed one input too few every round is found out, and by what.

    Raises:
        ScriptError: it is not, so the checks see nothing.
    """
    try:
        expected.check("it", "exact", answer)
    except ScriptError as error:
        why = str(error).removesuffix(f". {USELESS}")
        return f"a run that commits one input too few a round was found ({why})."
    raise ScriptError(
        "A run that committed one input too few every round passed all checks, so they would miss "
        "a wrong commit. The checks or the runtime under test are broken; no figure counts."
    )
