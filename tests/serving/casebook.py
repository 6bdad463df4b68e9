"""Cases: requests whose answers are the same on every system, and what they must be."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any

import pytest
from every_system import LEAD, SYSTEMS, Stage, tolerance
from heard import CHAT, streamed, unlike, whole

from hybridspec.text.tokenizer import Tokenizer
from scripted_text import RIGHT, SPECIALS, draft, say

ASKED = [{"role": "user", "content": "What should I know about gardening?"}]
SAMPLINGS = {
    "greedy": {"temperature": 0},
    "seeded": {"temperature": 1.0, "top_p": 0.95, "top_k": 50, "seed": 4},
}
SURE = 200.0
FORMS = {"whole": whole, "stream": streamed}
Holds = Callable[[dict[str, Any]], None]


@dataclass(frozen=True)
class Case:
    """A request.

    Attributes:
        body: of the request, beside prompt and sampling.
        says: what the target says, as text or ids; None: its own words.
        holds: looks at the one choice of the answer, with its usage.
        plan: drafts that are right in each round, over and over.
        above: how far a token that it says is above all others, in logits; where that is little,
            only greedy answers are as they are wanted.
        template: the chat template, in place of the pair's own.
        daily: whether CI runs it.
    """

    body: dict[str, Any]
    says: str | Sequence[int] | None = None
    holds: Holds = lambda choice: None
    plan: Sequence[int] = (RIGHT,)
    path: str = CHAT
    above: float = SURE
    template: str | None = None
    daily: bool = True

    @property
    def asked(self) -> list[tuple[str, str]]:
        """Samplings and forms in which it is asked. Plain decoding is always asked for the whole.

        One that CI does not run is another cut of one that it runs.
        """
        drawn = self.daily and self.above >= SURE
        return [("greedy", "stream"), *([("seeded", "whole")] if drawn else [])]


@dataclass
class Book:
    """Asks cases of systems, and plain decoding once for each."""

    stage: Stage
    law: dict[tuple[str, str, int], dict[str, Any]] = field(default_factory=dict)

    def plain(self, case: Case, sampling: str, beside: str) -> dict[str, Any]:
        """Plain decoding's answer on the engine of a system, which no plan of drafts changes."""
        engine = self.stage.engine(beside)
        known = case.path, case.body, case.says, case.above, case.template
        key = repr(known), sampling, id(engine)
        if key not in self.law:
            if case.says is None:
                draft(engine, ())
            else:
                say(engine, case.says)
            self.law[key] = self._asked(case, sampling, "whole", "ar", beside)
        return self.law[key]

    def check(self, case: Case, system: str, sampling: str, form: str) -> None:
        """The answer of a system is plain decoding's, and what the case wants."""
        law = self.plain(case, sampling, system)
        if case.says is None:
            draft(self.stage.engine(system), law["choices"][0]["token_ids"], case.plan)
        else:
            say(self.stage.engine(system), case.says, case.plan)
        answer = self._asked(case, sampling, form, system, system)
        assert unlike(answer, law, tolerance(system)) == []
        case.holds({**answer["choices"][0], "usage": answer["usage"]})

    def _asked(
        self, case: Case, sampling: str, form: str, system: str, beside: str
    ) -> dict[str, Any]:
        server, engine = self.stage.server(system, beside), self.stage.engine(beside)
        prompt = {"messages": ASKED} if case.path == CHAT else {"prompt": "The garden"}
        body = {**prompt, **SAMPLINGS[sampling], **case.body}
        own, engine.target.above = engine.tokenizer, case.above
        if case.template is not None:
            engine.tokenizer = Tokenizer(own._backend, SPECIALS, case.template)
            engine._grammars = None  # which are of a tokenizer
        try:
            return FORMS[form](server, case.path, body)
        finally:
            if engine.tokenizer is not own:
                engine.tokenizer, engine._grammars = own, None


def crossed(cases: dict[str, Case], everywhere: str = "") -> pytest.MarkDecorator:
    """Parametrise by case, system, sampling and form.

    All of it is `full`. CI runs the daily cases on LEAD, greedy and as a stream, and the model's
    own words seeded too; on the other systems it runs the case `everywhere`, in one form.
    """
    rows = []
    for (name, case), system in product(cases.items(), SYSTEMS):
        own = case.says is None
        for sampling, form in case.asked:
            led = system == LEAD and (own or sampling == "greedy")
            here = case.daily and (led or (name == everywhere and own == (sampling == "seeded")))
            label = f"{name}-{system}-{sampling}"
            marks = () if here else pytest.mark.full
            rows.append(pytest.param(case, system, sampling, form, id=label, marks=marks))
    return pytest.mark.parametrize(("case", "system", "sampling", "form"), rows)
