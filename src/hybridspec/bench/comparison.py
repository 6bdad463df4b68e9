"""Two systems' answers to the same prompts, compared; how near a tie each difference was."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol

from torch import Tensor

from hybridspec.bench import equality
from hybridspec.bench.equality import Difference
from hybridspec.bench.records import Key
from hybridspec.bench.ties import turn
from hybridspec.core import SamplingParams
from hybridspec.engine import Engine

ROWS = 64  # logits kept: systems that turn a tie often turn the same one


class Answer(Protocol):
    """What is compared of an answer."""

    @property
    def token_ids(self) -> tuple[int, ...]:
        """Its tokens."""

    @property
    def rounds(self) -> tuple[tuple[int, int, int], ...]:
        """w, A and m of every round."""


@dataclass(frozen=True, slots=True)
class Found:
    """One difference. See `equality.Difference` for the first six, and `ties.turn`.

    Attributes:
        near: whether `turn` is within the bound; never where one answer had ended.
        expected_text, found_text: the two tokens as text, None where there is none.
    """

    prompt: str
    position: int
    expected: int | None
    found: int | None
    gap: float | None
    regret: float | None
    turn: float | None
    near: bool
    expected_text: str | None
    found_text: str | None


@dataclass(frozen=True, slots=True)
class Outcome:
    """What comes of comparing one system, or one form of it, at one temperature.

    Attributes:
        temperature: 0 is greedy.
        form: of the rounds.
        bound: the largest `turn` of a near tie.
        compared: answers.
        equal: those with the same tokens.
        share: equal / compared.
        near_ties, different: of those that differ. Together with `equal` all.
        other_rounds: answers with the same tokens from other rounds; 0 where rounds may differ.
        rounds: rounds run.
        positions: of the first differences, in order.
        largest_regret, largest_turn: over the differences; None without any, or where none has one.
        differences: each of them.
    """

    temperature: float
    form: str
    bound: float
    compared: int
    equal: int
    share: float
    near_ties: int
    different: int
    other_rounds: int
    rounds: int
    positions: tuple[int, ...]
    largest_regret: float | None
    largest_turn: float | None
    differences: tuple[Found, ...]


class Comparer:
    """Compares answers of one engine's pair."""

    def __init__(self, engine: Engine, encoded: Mapping[str, Sequence[int]]) -> None:
        """`encoded`: token ids of every prompt, by prompt id."""
        self._engine, self._encoded = engine, encoded
        self._row = lru_cache(maxsize=ROWS)(self._computed)

    def compare(
        self,
        base: Mapping[str, Answer],
        other: Mapping[str, Answer],
        params: SamplingParams,
        bound: float,
        form: str,
        *,
        same_rounds: bool = False,
    ) -> Outcome:
        """Compare `other` with `base`, both by prompt id; `same_rounds` compares rounds too."""
        expected = {Key(0, prompt, "base"): answer for prompt, answer in base.items()}
        both = expected | {Key(0, prompt, "other"): answer for prompt, answer in other.items()}
        plain = equality.references(both, "base")
        differences = equality.with_gaps(
            equality.differences(both, "base"),
            plain,
            lambda prompt, answer: self._row(prompt, tuple(answer)),
            most=None,
        )
        found = tuple(self._found(d, plain[d.prompt].token_ids, params, bound) for d in differences)
        near, alike = sum(f.near for f in found), set(other) - {f.prompt for f in found}
        return Outcome(
            temperature=params.temperature,
            form=form,
            bound=bound,
            compared=len(other),
            equal=len(alike),
            share=len(alike) / len(other),
            near_ties=near,
            different=len(found) - near,
            other_rounds=sum(same_rounds and base[p].rounds != other[p].rounds for p in alike),
            rounds=sum(len(answer.rounds) for answer in other.values()),
            positions=tuple(sorted(f.position for f in found)),
            largest_regret=max((f.regret for f in found if f.regret is not None), default=None),
            largest_turn=max((f.turn for f in found if f.turn is not None), default=None),
            differences=found,
        )

    def _computed(self, prompt: str, answer: tuple[int, ...]) -> Tensor:
        return equality.plain_logits(self._engine.target, self._encoded[prompt], answer)

    def _found(
        self, d: Difference, expected: Sequence[int], params: SamplingParams, bound: float
    ) -> Found:
        needed = None
        if d.expected is not None and d.found is not None:
            row = self._row(d.prompt, tuple(expected[: d.position]))
            at = len(self._encoded[d.prompt]) + d.position
            needed = turn(row, d.found, params, params.seed or 0, at)
        return Found(
            prompt=d.prompt,
            position=d.position,
            expected=d.expected,
            found=d.found,
            gap=d.gap,
            regret=d.regret,
            turn=needed,
            near=needed is not None and needed <= bound,
            expected_text=self._text(d.expected),
            found_text=self._text(d.found),
        )

    def _text(self, token: int | None) -> str | None:
        tokenizer = self._engine.tokenizer
        if token is None or tokenizer is None:
            return None
        return tokenizer.decode([token], skip_special_tokens=False)
