"""What `quality` asks, and how the answers are judged."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from hybridspec.bench import measure
from hybridspec.bench.execution import check_runs, run_program
from hybridspec.bench.grading import is_right, program, said
from hybridspec.bench.lines import Lines
from hybridspec.bench.marks import ROLES, Mark, Role, Row, assemble
from hybridspec.bench.pairs import encode, look_at
from hybridspec.bench.progress import Progress
from hybridspec.bench.prompts import Prompt, select
from hybridspec.bench.tasks import Task, read_tasks
from hybridspec.core import SamplingParams
from hybridspec.engine import Engine
from hybridspec.errors import HybridSpecError, RequestError

if TYPE_CHECKING:
    from hybridspec.bench.quality import QualityOptions


class Step(NamedTuple):
    """One generation. Both roles may be the same system: then only their seeds differ."""

    role: Role
    system: str
    prompt: str
    text_sha256: str


@dataclass(frozen=True, slots=True)
class Reply:
    """What is kept of a generation."""

    token_ids: tuple[int, ...]
    text: str
    finish_reason: str


class Exam:
    """One call of `quality`.

    Attributes:
        tasks: the questions that will be asked.
        skipped: rows that will not, by the reason.
        lines: the replies kept so far.
        schedule: every generation in its turn, known once the pair is loaded.
    """

    def __init__(self, options: QualityOptions, prompts: Sequence[Prompt], path: Path) -> None:
        """Look at everything that can be refused before weights are loaded.

        Raises:
            CheckpointError, RequestError: as `pairs.look_at`, `parse_system`, `read_tasks` and
                `Lines`; no row that can be judged; code that cannot be run.
        """
        self.options = options
        self.tasks, self.skipped = _chosen(options, prompts)
        self.pair = look_at(options, [task.prompt for task in self.tasks])
        for name in (options.baseline, options.system):
            self.pair.system(name)
        if any(task.kind == "code" for task in self.tasks):
            check_runs(options.limits)
        # Every reply names its question, so that --run-code and --limit add to a run without.
        setup = {**self.pair.setup, "temperature": options.temperature}
        del setup["prompts_sha256"]
        self.lines = Lines(path, setup, _parse, force=options.force)
        self.schedule: list[Step] = []

    @property
    def done(self) -> int:
        """How many generations of the schedule are kept."""
        return sum(step in self.lines.items for step in self.schedule)

    def run(self) -> dict[str, Any]:
        """Ask what is missing and judge: all that DIR/quality.json says.

        Raises:
            RequestError: no question fits the context. HybridSpecError: an answer cannot be
                decoded.
        """
        engine = measure.load(self.options)
        encoded, long = encode(engine, self.pair, self.options, [t.prompt for t in self.tasks])
        asked = [task for task in self.tasks if task.prompt.id in encoded]
        self.skipped["too long for the context"] = len(long)
        self.schedule = [self._step(role, task) for task in asked for role in ROLES]
        missing = [step for step in self.schedule if step not in self.lines.items]
        with Progress(len(missing)) as advance:
            for step in missing:
                advance(f"{step.prompt} {step.system}")
                self._ask(engine, step, encoded[step.prompt])
        return assemble(self.options, self.lines.setup, self.skipped, self._rows(asked))

    def _step(self, role: Role, task: Task) -> Step:
        system = self.options.system if role == "system" else self.options.baseline
        text = hashlib.sha256(task.prompt.text.encode()).hexdigest()
        return Step(role, system, task.prompt.id, text)

    def _ask(self, engine: Engine, step: Step, ids: list[int]) -> None:
        try:
            answer = engine.generate(ids, self._params(step), system=step.system)
        except HybridSpecError as error:
            raise type(error)(f"Prompt {step.prompt!r} with {step.system}: {error}") from None
        row = {"token_ids": list(answer.token_ids), "text": answer.text}
        self.lines.add({**step._asdict(), **row, "finish_reason": answer.finish_reason})

    def _params(self, step: Step) -> SamplingParams:
        most, temperature = self.options.max_tokens, self.options.temperature
        if not temperature:
            return SamplingParams(max_tokens=most)
        seed = seed_of(self.options.seed, step.role, step.prompt)
        return SamplingParams(max_tokens=most, temperature=temperature, seed=seed)

    def _rows(self, asked: Sequence[Task]) -> list[Row]:
        """Every question with both replies, judged."""
        rows = []
        programs: dict[str, str] = {}  # the systems often write the same one
        with Progress(2 * sum(task.kind == "code" for task in asked)) as advance:
            for task in asked:
                replies = [self.lines.items[self._step(role, task)] for role in ROLES]
                marks = []
                for reply in replies:
                    if task.kind == "code":
                        advance(f"running the code of {task.prompt.id}")
                    marks.append(self._mark(task, reply, programs))
                same = replies[0].token_ids == replies[1].token_ids
                rows.append(
                    Row(task.prompt.id, task.prompt.category, task.kind, task.answer, same, *marks)
                )
        return rows

    def _mark(self, task: Task, reply: Reply, programs: dict[str, str]) -> Mark:
        if task.kind != "code":
            found = said(task.kind, reply.text, task.answer)
            return Mark(is_right(task.kind, found, task.answer), found, reply.finish_reason)
        source = program(task.prompt.text, reply.text, task.entry_point)
        source += f"\n{task.test}\n\ncheck({task.entry_point})\n"
        if source not in programs:
            programs[source] = run_program(source, self.options.limits)
        return Mark(programs[source] == "passed", programs[source], reply.finish_reason)


def seed_of(seed: int, role: str, prompt: str) -> int:
    """A seed of its own for every reply, below 2^63: one for all would tie the questions together,
    since a random number depends on seed and position alone.
    """
    digest = hashlib.sha256(f"{seed} {role} {prompt}".encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 1


def _chosen(
    options: QualityOptions, prompts: Sequence[Prompt]
) -> tuple[list[Task], dict[str, int]]:
    """The tasks to ask, and how many rows are left out, by the reason."""
    every = read_tasks(options.prompts, prompts)
    tasks = [task for task in every if options.run_code or task.kind != "code"]
    if not tasks:
        why = "are code, which runs only with --run-code" if every else "has an answer"
        raise RequestError(
            f"{'All' if every else 'None'} of the {len(every) or len(prompts)} "
            f"{'questions' if every else 'rows'} of {options.prompts} {why}. Expected rows with "
            "`answer`, or with `test`, `entry_point` and the option --run-code."
        )
    asked = {prompt.id for prompt in select([t.prompt for t in tasks], limit=options.limit)}
    return [task for task in tasks if task.prompt.id in asked], {
        "no answer": len(prompts) - len(every),
        "code without --run-code": len(every) - len(tasks),
        "beyond --limit": len(tasks) - len(asked),
    }


def _parse(row: dict[str, Any]) -> tuple[Step, Reply]:
    """A line of the file of replies; an error of `lines.DAMAGE` for another shape."""
    role = ROLES[ROLES.index(row["role"])]
    step = Step(role, str(row["system"]), str(row["prompt"]), str(row["text_sha256"]))
    tokens = tuple(int(i) for i in row["token_ids"])
    return step, Reply(tokens, str(row["text"]), str(row["finish_reason"]))
