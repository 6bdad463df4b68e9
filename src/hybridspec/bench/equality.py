"""Whether all systems gave the same tokens; where one did not, how near a tie it was.

Speed may be compared only between equal answers. A rounding error can turn a near tie of two
tokens: then the gap between the two most likely ones is tiny. It is reported, never passed over.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol, TypeVar

import torch
from torch import Tensor

from hybridspec.bench.records import Key
from hybridspec.model.target import Target
from hybridspec.runtime.state import TargetState
from hybridspec.stream import PREFILL_CHUNK

GAPS = 32  # differences whose gap is computed: each one decodes an answer again
Logits = Callable[[str, Sequence[int]], Tensor]


class Answer(Protocol):
    """What is compared of a generation, whatever else its record holds."""

    @property
    def token_ids(self) -> tuple[int, ...]:
        """The answer."""


A = TypeVar("A", bound=Answer)


@dataclass(frozen=True, slots=True)
class Difference:
    """The first token at which an answer leaves the reference.

    Attributes:
        prompt, system, repeat: the generation.
        position: index in the answer, 0 the first token.
        expected: the reference's token there; None where it had ended.
        found: this answer's token there; None where it had ended.
        gap: logit of the most likely token less that of the second, under plain decoding.
        regret: logit of the most likely token less that of `found`, under plain decoding.
    """

    prompt: str
    system: str
    repeat: int
    position: int
    expected: int | None
    found: int | None
    gap: float | None = None
    regret: float | None = None


def references(records: Mapping[Key, A], baseline: str) -> dict[str, A]:
    """By prompt id, the baseline's first answer: what every other one must equal."""
    firsts: dict[str, A] = {}
    for key in sorted(k for k in records if k.system == baseline):
        firsts.setdefault(key.prompt, records[key])
    return firsts


def compared(records: Mapping[Key, Answer], baseline: str) -> int:
    """How many answers have a reference that is another one. A reference equals itself."""
    expected = references(records, baseline)
    return sum(
        key.prompt in expected and record is not expected[key.prompt]
        for key, record in records.items()
    )


def differences(records: Mapping[Key, Answer], baseline: str) -> list[Difference]:
    """Every answer that is not the reference's, repeats of the baseline included."""
    expected = references(records, baseline)
    found = []
    for key, record in records.items():
        if key.prompt in expected and record.token_ids != expected[key.prompt].token_ids:
            found.append(_difference(key, record.token_ids, expected[key.prompt].token_ids))
    return found


def with_gaps(
    found: Sequence[Difference],
    expected: Mapping[str, Answer],
    logits: Logits,
    most: int | None = GAPS,
) -> list[Difference]:
    """The same differences with gap and regret, for the first few.

    Args:
        found: as `differences` gives them.
        expected: as `references` gives them.
        logits: prompt id and the answer's tokens so far -> logits [V] of the next one.
        most: how many of them; None is all.
    """
    count = len(found) if most is None else most
    filled = [_with_gap(d, expected[d.prompt].token_ids, logits) for d in found[:count]]
    return filled + list(found[count:])


def plain_logits(target: Target, prompt: Sequence[int], answer: Sequence[int]) -> Tensor:
    """Logits [V] after a prompt and an answer, token by token as plain decoding computes them."""
    state = TargetState(
        target.config, len(prompt) + len(answer), device=target.device, dtype=target.dtype
    )
    slot = state.slot()
    with torch.inference_mode():
        for part in torch.tensor(prompt, device=target.device).split(PREFILL_CHUNK):
            out = target.prefill(part, slot)
        for token in answer:
            stage0 = target.stage0(torch.tensor([token], device=target.device), slot, "exact")
            out = target.stage1(stage0, 1, slot, "exact")
            target.commit(slot, 1, "exact")
    return out.logits[-1]


def _difference(key: Key, ours: tuple[int, ...], expected: tuple[int, ...]) -> Difference:
    pairs = zip(ours, expected, strict=False)
    at = next((i for i, (a, b) in enumerate(pairs) if a != b), min(len(ours), len(expected)))
    return Difference(key.prompt, key.system, key.repeat, at, _at(expected, at), _at(ours, at))


def _with_gap(difference: Difference, expected: Sequence[int], logits: Logits) -> Difference:
    row = logits(difference.prompt, expected[: difference.position]).double()
    first, second = row.topk(2).values.tolist()
    regret = None if difference.found is None else first - float(row[difference.found])
    return replace(difference, gap=first - second, regret=regret)


def _at(tokens: Sequence[int], index: int) -> int | None:
    return tokens[index] if index < len(tokens) else None
