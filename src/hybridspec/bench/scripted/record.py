"""Records dense traces of the embedded pair for `traces.py`, and fits acceptance to them.

    python -m hybridspec.bench.scripted.record --prompts FILE --out TRACES.npz

For a machine with the whole package and scikit-learn (`calibrate`); a GPU's only reads the result.
Every answer is kept in TRACES.npz.work once it is done: an interrupted run goes on there.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from hybridspec.bench.parsing import Parser
from hybridspec.bench.prompts import HALVES, Prompt, digest, read_prompts, select
from hybridspec.bench.scripted.paper import PAIRS
from hybridspec.bench.scripted.traces import FITTED, Fit, Traces, without_experts
from hybridspec.calibration.capture import Capture
from hybridspec.calibration.fit import (
    fit_acceptance,
    fit_temperatures,
    labels,
    reached,
    reliability,
)
from hybridspec.calibration.trace import Trace, joined
from hybridspec.engine import Engine

LONGEST = 2048  # tokens of a prompt; longer ones are left out


def main(arguments: Sequence[str] | None = None) -> int:
    """Record what is missing, fit, write."""
    given = _parser().parse_args(arguments)
    engine, every = Engine.load(), read_prompts(given.prompts)
    work = given.out.with_name(given.out.name + ".work")
    answers, used = {}, []
    for split in HALVES:
        prompts = select(every, split=split, limit=given.limit)
        answers[split] = recorded(engine, prompts, given.tokens, work)
        used += prompts
    about = {
        "max_tokens": given.tokens, "prompts_sha256": digest(used),
        "recorded": {split: len(traces) for split, traces in answers.items()},
    }  # fmt: skip
    fitted(Traces(answers, {}, about)).save(given.out)
    return 0


def _parser() -> argparse.ArgumentParser:
    made = Parser(
        prog="python -m hybridspec.bench.scripted.record", description=__doc__.splitlines()[0],
        allow_abbrev=False,
    )  # fmt: skip
    add = made.add_argument
    add("--prompts", metavar="FILE", type=Path, required=True, help="JSON lines, as of bench speed")
    add("--out", metavar="PATH", type=Path, required=True, help="where the traces go")
    add("--tokens", metavar="N", type=int, default=96, help="of an answer, at most (%(default)s)")
    add("--limit", metavar="N", type=int, default=220, help="prompts of a split (%(default)s)")
    return made


def recorded(engine: Engine, prompts: Sequence[Prompt], tokens: int, work: Path) -> list[Trace]:
    """Traces of greedy answers of at most `tokens` tokens. work: where each is kept."""
    work.mkdir(parents=True, exist_ok=True)
    assert engine.drafter is not None
    capture = Capture(engine.target, engine.drafter, LONGEST + tokens)
    traces = []
    for number, prompt in enumerate(prompts):
        ids, path = engine.encode(prompt.text, chat=True), work / f"{prompt.id}.npz"
        if len(ids) > LONGEST:
            continue
        if not path.exists():
            answer = capture.answer(number, ids, engine.defaults.eos_token_ids, tokens)
            without_experts(answer).save(path)
            sys.stderr.write(f"{number + 1} of {len(prompts)}: {prompt.id}\n")
        traces.append(Trace.load(path))
    return [trace for trace in traces if len(trace)]


def fitted(traces: Traces) -> Traces:
    """With acceptance fitted to every pair's calibration traces, and judged on its test traces."""
    return Traces(traces.answers, {pair: _fit(traces, pair) for pair in PAIRS}, traces.about)


def _fit(traces: Traces, pair: str) -> Fit:
    own, test = (_pooled(traces, pair, split) for split in HALVES)
    model = fit_acceptance(own)
    errors = {"raw": _error(test.confidence, test)}
    errors["model"] = _error(model.conditional(*_scores(test)).numpy(), test)
    x, y = (tuple(map(tuple, knots.tolist())) for knots in (model.curves.x, model.curves.y))
    weights, temperatures = model.weights.tolist(), fit_temperatures(own).tolist()
    return Fit(x, y, tuple(weights), tuple(temperatures), {"test_error": errors})


def _error(probability: NDArray[Any], trace: Trace) -> float:
    """Expected calibration error of acceptance probabilities [N, D]."""
    mask = reached(trace)
    return reliability(probability[mask].astype(np.float64), labels(trace)[mask]).ece


def _scores(trace: Trace) -> Iterator[torch.Tensor]:
    return (torch.from_numpy(t).double() for t in (trace.confidence, trace.entropy))


def _pooled(traces: Traces, pair: str, split: str) -> Trace:
    """All categories' thinned traces, end to end."""
    parts = [t.trace for t in traces.of(pair, split, FITTED).values()]
    for number, part in enumerate(parts):
        part.prompt[:] = number
    return joined(parts)


if __name__ == "__main__":
    raise SystemExit(main())
