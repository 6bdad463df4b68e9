"""Generations measured one by one: warm-up, then the schedule, each kept as soon as it is done."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping, Sequence

from hybridspec.bench import turns
from hybridspec.bench.drafts import judge
from hybridspec.bench.journal import Journal
from hybridspec.bench.machine import circumstances
from hybridspec.bench.options import PairOptions, SpeedOptions
from hybridspec.bench.records import Key, Record, TimedRound
from hybridspec.bench.setup import Plan
from hybridspec.core import Generation, SamplingParams
from hybridspec.engine import Engine
from hybridspec.errors import HybridSpecError, RequestError
from hybridspec.runtime import check

WARMUP_TOKENS = 64  # enough for every shape that a round runs
Advance = Callable[[str], None]


def load(options: PairOptions) -> Engine:
    """The engine of a pair. Arguments and errors as `Engine.load`."""
    return Engine.load(
        options.model,
        options.draft,
        device=options.device,
        dtype=options.dtype,
        revision=options.revision,
        draft_revision=options.draft_revision,
        profile=options.profile,
        progress=False if sys.stderr is None else None,
    )


def ask(engine: Engine, plan: Plan, key: Key, records: Mapping[Key, Record]) -> list[int]:
    """Token ids of a generation's prompt; KeyError where an earlier turn has not run."""
    if not key.turn:
        return plan.encoded[key.prompt]
    assert engine.tokenizer is not None
    prompt = next(p for p in plan.prompts if p.id == key.prompt)
    said = turns.answers(key, records, engine.tokenizer)
    chat = turns.messages(prompt, said)
    return engine.encode(chat, enable_thinking=plan.options.thinking)


def run(
    engine: Engine,
    plan: Plan,
    journal: Journal,
    advance: Advance,
    schedule: Sequence[Key] | None = None,
) -> None:
    """Measure what the journal lacks of a schedule.

    Args:
        engine: the loaded pair.
        plan: what to run.
        journal: takes each generation.
        advance: told what comes next, before each generation, warm-up included.
        schedule: some of the plan's; by default all.

    Raises:
        RequestError: HYBRIDSPEC_CHECK is set.
    """
    if check.enabled():
        raise RequestError(
            "HYBRIDSPEC_CHECK is set: its checks would be measured too. Unset it for the bench."
        )
    facts = {
        **circumstances(),
        "device": str(engine.target.device),
        "dtype": str(engine.target.dtype).removeprefix("torch."),
        "warmup_generations": warmup_count(plan),
        "warmup_tokens": min(WARMUP_TOKENS, plan.max_tokens),
    }
    warm_up(engine, plan, advance)
    journal.add_run(facts)
    categories = {p.id: p.category for p in plan.prompts}
    for key in plan.schedule if schedule is None else schedule:
        if key not in journal.records:
            advance(f"{turns.question(key)} {key.system}")
            ids = ask(engine, plan, key, journal.records)
            journal.add(_record(engine, plan, key, categories[key.prompt], ids))


def warmup_count(plan: Plan) -> int:
    """Generations of a warm-up: as asked, and each system at least once."""
    return max(plan.options.warmup, len(plan.options.systems))


def warm_up(engine: Engine, plan: Plan, advance: Advance) -> None:
    """Generate and forget: systems and prompts in turn, short answers."""
    params = sampling(plan.options, min(WARMUP_TOKENS, plan.max_tokens))
    prompts, systems = list(plan.encoded.values()), plan.options.systems
    for index in range(warmup_count(plan)):
        system = systems[index % len(systems)]
        advance(f"warm-up {system}")
        engine.generate(prompts[index % len(prompts)], params, system=system)


def _record(engine: Engine, plan: Plan, key: Key, category: str, ids: Sequence[int]) -> Record:
    try:
        return measure(engine, key, category, ids, sampling(plan.options, plan.max_tokens))
    except HybridSpecError as error:
        raise type(error)(f"Prompt {key.prompt!r} with {key.system}: {error}") from None


def sampling(options: SpeedOptions, max_tokens: int) -> SamplingParams:
    """How the answers of a bench are drawn: greedily, or at a temperature with one seed."""
    if not options.temperature:
        return SamplingParams(max_tokens=max_tokens)
    return SamplingParams(max_tokens=max_tokens, temperature=options.temperature, seed=options.seed)


def measure(
    engine: Engine, key: Key, category: str, ids: Sequence[int], params: SamplingParams
) -> Record:
    """One generation of prompt tokens `ids`, every round timed.

    A round's time is that of asking the stream for its next piece: the host has read the round's
    tokens by then, so the device has finished it. Its drafts are read when the answer is whole.
    """
    stream = engine.stream(ids, params, system=key.system, keep_drafts=True)
    seconds = []
    began = time.perf_counter()
    for _ in stream:
        now = time.perf_counter()
        seconds.append(now - began)
        began = now
    answer = stream.result()
    return Record(
        key=key,
        category=category,
        prompt_tokens=answer.prompt_tokens,
        token_ids=answer.token_ids,
        finish_reason=answer.finish_reason,
        prefill_seconds=answer.stats.prefill_seconds,
        decode_seconds=answer.stats.decode_seconds,
        rounds=_timed(answer, seconds[1:]),  # the first piece is the prefill
    )


def _timed(answer: Generation, seconds: Sequence[float]) -> tuple[TimedRound, ...]:
    """The rounds with their times, and what became of the drafts they did not verify."""
    rounds, emitted = [], 1
    for r, time_taken in zip(answer.stats.rounds, seconds, strict=True):
        drafts = [] if r.drafts is None else r.drafts.tolist()
        judged, missed = judge(drafts, r.w, answer.token_ids[emitted:])
        counts = (r.w, r.accepted, r.committed, time_taken)
        rounds.append(TimedRound(*counts, len(drafts), judged, missed))
        emitted += r.committed
    return tuple(rounds)
