"""What `verify` runs, and what it makes of the answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from hybridspec.bench import measure
from hybridspec.bench.comparison import Comparer, Outcome
from hybridspec.bench.forms import FORMS, Form, running, sweep
from hybridspec.bench.lines import Lines
from hybridspec.bench.pairs import encode, look_at
from hybridspec.bench.progress import Progress
from hybridspec.bench.prompts import Prompt
from hybridspec.bench.served import REFERENCE, chosen, corrected
from hybridspec.bench.ties import bound
from hybridspec.core import SamplingParams
from hybridspec.engine import Engine
from hybridspec.errors import HybridSpecError
from hybridspec.model.gdn import VERIFY
from hybridspec.systems import System

if TYPE_CHECKING:
    from hybridspec.bench.verify import VerifyOptions

SWEEP = "sweep"  # systems of `forms.sweep`, named with a verifier
SCHEMA = "hybridspec.bench.verify/1"
COUNTING = (
    "compared: answers beside plain decoding's to the same prompt; share: of those, the equal "
    "ones. position: index in the answer of the first token that differs, 0 the first. Under plain "
    "decoding there: gap is the logit of the most likely token less the second's, regret the most "
    "likely token's less that of the token found; turn is by how much every logit had to move for "
    "plain decoding to say it, and a near tie is a turn within the system's bound."
)


class Step(NamedTuple):
    """One generation: at which temperature, by which system, in which form, of which prompt."""

    temperature: str
    system: str
    form: Form
    prompt: str


@dataclass(frozen=True, slots=True)
class Answer:
    """What is kept of a generation: its tokens, and w, A and m of every round."""

    token_ids: tuple[int, ...]
    rounds: tuple[tuple[int, int, int], ...]


class Check:
    """One call of `verify`.

    Attributes:
        lines: the answers kept so far.
        schedule: every generation in its turn, known once the pair is loaded.
        systems, left_out: those asked for, and those of all that the pair does not serve.
        forms: systems whose rounds are run in every form.
    """

    def __init__(self, options: VerifyOptions, prompts: Sequence[Prompt], path: Path) -> None:
        """Look at everything that can be refused before weights are loaded.

        Raises:
            CheckpointError, RequestError: as `pairs.look_at`, `parse_system` and `Lines`.
        """
        self.options, self.prompts = options, prompts
        self.pair = look_at(options, prompts)
        self.systems, self.left_out = chosen(self.pair, options.systems)
        sweeps = tuple(f"{SWEEP}:{verifier}" for verifier in VERIFY)
        ahead = corrected(self.pair, self.systems)
        self.forms = (*sweeps, *ahead) if options.forms else ()
        self.lines = Lines(path, self.pair.setup, _parse, force=options.force)
        self.schedule: list[Step] = []

    @property
    def done(self) -> int:
        """How many generations of the schedule are kept."""
        return sum(step in self.lines.items for step in self.schedule)

    def run(self) -> dict[str, Any]:
        """Decode what is missing and compare: all that DIR/verify.json says.

        Raises:
            RequestError: no prompt fits the context. HybridSpecError: an answer cannot be decoded.
        """
        engine = measure.load(self.options)
        encoded, long = encode(engine, self.pair, self.options, self.prompts)
        self.schedule = self._steps(encoded)
        missing = [step for step in self.schedule if step not in self.lines.items]
        with Progress(len(missing)) as advance:
            for step in missing:
                advance(f"{step.prompt} {step.system}")
                self._decode(engine, step, encoded[step.prompt])
        return self._results(Comparer(engine, encoded), list(encoded), long)

    def _steps(self, encoded: dict[str, list[int]]) -> list[Step]:
        """Prompt by prompt, so that an interrupted run holds whole prompts."""
        return [
            Step(f"{t:g}", system, form, prompt)
            for prompt in encoded
            for t in self.options.temperatures
            for system, forms in self._subjects().items()
            for form in forms
        ]

    def _subjects(self) -> dict[str, tuple[Form, ...]]:
        """Every system with the forms it runs in, the reference first."""
        split: dict[str, tuple[Form, ...]] = dict.fromkeys((REFERENCE, *self.systems), FORMS[:1])
        return split | dict.fromkeys(self.forms, FORMS)

    def _decode(self, engine: Engine, step: Step, ids: list[int]) -> None:
        # By name the engine keeps one object for all answers, so that one that learns goes on.
        kept = step.system in self.systems or step.system == REFERENCE
        system = step.system if kept else self._system(step.system)
        try:
            with running(engine, step.form):
                answer = engine.generate(ids, self._params(float(step.temperature)), system=system)
        except HybridSpecError as error:
            raise type(error)(f"Prompt {step.prompt!r} with {step.system}: {error}") from None
        rounds = [[r.w, r.accepted, r.committed] for r in answer.stats.rounds]
        row = {**step._asdict(), "token_ids": list(answer.token_ids), "rounds": rounds}
        self.lines.add(row)

    def _params(self, temperature: float) -> SamplingParams:
        most = self.options.max_tokens
        if not temperature:
            return SamplingParams(max_tokens=most)
        return SamplingParams(max_tokens=most, temperature=temperature, seed=self.options.seed)

    def _system(self, name: str) -> System:
        """A sweep begins anew with every answer."""
        kind, _, argument = name.partition(":")
        if kind != SWEEP:
            return self.pair.system(name)
        return sweep(self.pair.block_size or 1, next(v for v in VERIFY if v == argument))

    def _results(
        self, comparer: Comparer, prompts: Sequence[str], long: dict[str, int]
    ) -> dict[str, Any]:
        others = [name for name in self._subjects() if name != REFERENCE]
        systems = {
            name: [
                self._compare(comparer, prompts, t, REFERENCE, name, "split")
                for t in self.options.temperatures
            ]
            for name in others
        }
        forms = {
            name: [
                self._compare(comparer, prompts, t, name, name, form)
                for t in self.options.temperatures
                for form in FORMS[1:]
            ]
            for name in self.forms
        }
        outcomes = [o for runs in (*systems.values(), *forms.values()) for o in runs]
        return {
            "schema": SCHEMA,
            "counting": COUNTING,
            "setup": self.pair.setup,
            "reference": REFERENCE,
            "prompts": len(prompts),
            "too_long": long,
            "not_served": list(self.left_out),
            "systems": {name: [asdict(o) for o in runs] for name, runs in systems.items()},
            "forms": {name: [asdict(o) for o in runs] for name, runs in forms.items()},
            "lossless": not any(o.different or o.other_rounds for o in outcomes),
        }

    def _compare(
        self,
        comparer: Comparer,
        prompts: Sequence[str],
        temperature: float,
        base: str,
        other: str,
        form: Form,
    ) -> Outcome:
        """Answers of `other` in a form beside those of `base` as served."""
        steps = (
            Step(f"{temperature:g}", other, form, ""),
            Step(f"{temperature:g}", base, "split", ""),
        )
        ours, theirs = (
            {p: self.lines.items[step._replace(prompt=p)] for p in prompts} for step in steps
        )
        allowed = self.options.near_tie
        if allowed is None:
            allowed = bound(self._system(other).verifier, self.pair.device, self.pair.dtype)
        params = self._params(temperature)
        return comparer.compare(theirs, ours, params, allowed, form, same_rounds=base == other)


def _parse(row: dict[str, Any]) -> tuple[Step, Answer]:
    """A line of the file of answers; an error of `lines.DAMAGE` for another shape."""
    form = next(f for f in (*FORMS, None) if f in (row["form"], None))
    if form is None:
        raise ValueError(row["form"])
    step = Step(str(row["temperature"]), str(row["system"]), form, str(row["prompt"]))
    rounds = tuple((int(w), int(a), int(m)) for w, a, m in row["rounds"])
    return step, Answer(tuple(int(i) for i in row["token_ids"]), rounds)
