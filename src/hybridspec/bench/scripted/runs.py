"""Every system on every trace, checked answer by answer."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from hybridspec.bench.scripted.answers import Answer, Answers
from hybridspec.bench.scripted.check import Expected, check_control
from hybridspec.bench.scripted.paper import CATEGORIES
from hybridspec.bench.scripted.plan import CONTROL
from hybridspec.bench.scripted.tables import Row
from hybridspec.policy.length import FixedLength
from hybridspec.systems import System

SPLIT = "test"
LENGTH = 4  # of the control's rounds, so that its states lag in every one
WARM = 16  # tokens before a system is timed: what is recorded or compiled once is not its speed


class Runs:
    """Systems that answer the same prompts, `ar` the first of them."""

    def __init__(self, answers: Answers, systems: Sequence[System]) -> None:
        """Each system is used for all answers, so that one that learns goes on learning."""
        self.answers, (self.plain, *self.others) = answers, systems

    def control(self) -> str:
        """What the checks say of a run that commits one input too few every round.

        Raises:
            ScriptError: nothing.
        """
        expected = self._expected(CATEGORIES[0], 0.0, CONTROL)[0]
        wrong = System("control", FixedLength(LENGTH), "exact")
        self._begin(CATEGORIES[0], 0.0)
        return check_control(expected, self.answers.answer(wrong, CONTROL, forget=True))

    def all(self, categories: Sequence[str], count: int, tokens: int) -> dict[str, dict[str, Row]]:
        """`count` answers a category by every system, added up by system and category.

        Raises:
            ScriptError: an answer is wrong.
        """
        self._warm(categories[0])
        rows: dict[str, dict[str, Row]] = defaultdict(dict)
        for category in categories:
            said: dict[str, list[Answer]] = defaultdict(list)
            for i in range(count):
                for name, answer in self._turn(category, i, count, tokens).items():
                    said[name].append(answer)
            for name, answers in said.items():
                rows[name][category] = Row.of(answers)
        return dict(rows)

    def _turn(self, category: str, i: int, count: int, tokens: int) -> dict[str, Answer]:
        """One answer of every system; who is first after `ar` changes."""
        place = (CATEGORIES.index(category) * count + i) * (self.answers.length + tokens)
        self.answers.prompt(place, self.answers.length)
        expected, plain = self._expected(category, i / count, tokens)
        found, others = {self.plain.name: plain}, self.others
        first = i % max(1, len(others))
        for system in others[first:] + others[:first]:
            self._begin(category, i / count)
            found[system.name] = answer = self.answers.answer(system, tokens)
            expected.check(system.name, system.verifier, answer)
        return {s.name: found[s.name] for s in (self.plain, *others)}

    def _expected(self, category: str, share: float, tokens: int) -> tuple[Expected, Answer]:
        """What answers must be, from plain decoding's."""
        self._begin(category, share)
        plain = self.answers.answer(self.plain, tokens)
        known = self.answers.pair.cycle.known(self.answers.anchor, tokens).tolist()
        return Expected.of(known, plain), plain

    def _begin(self, category: str, share: float) -> None:
        self.answers.pair.begin((SPLIT, category), self.answers.length, share)

    def _warm(self, category: str) -> None:
        for system in (self.plain, *self.others):
            self._begin(category, 0.0)
            self.answers.answer(system, WARM)
