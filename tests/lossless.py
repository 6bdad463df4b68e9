"""Compare a system's answers with plain decoding's, and say how near a tie a difference was."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from hybridspec.bench.equality import plain_logits
from hybridspec.core import SamplingParams
from hybridspec.engine import Engine
from hybridspec.runtime.philox import uniform
from hybridspec.runtime.sampling import weights


def differences(
    engine: Engine, prompts: Sequence[list[int]], systems: Sequence[str], params: SamplingParams
) -> list[str]:
    """One sentence a prompt and system whose tokens are not plain decoding's."""
    found = []
    for number, prompt in enumerate(prompts):
        expected = engine.generate(prompt, params, system="ar").token_ids
        for system in systems:
            tokens = engine.generate(prompt, params, system=system).token_ids
            if tokens != expected:
                found.append(
                    f"prompt {number}, {system}: {_where(engine, prompt, expected, tokens, params)}"
                )
    return found


def _where(
    engine: Engine,
    prompt: list[int],
    expected: Sequence[int],
    tokens: Sequence[int],
    params: SamplingParams,
) -> str:
    at = next((i for i, (a, b) in enumerate(zip(expected, tokens, strict=False)) if a != b), None)
    if at is None:
        return f"{len(tokens)} tokens instead of {len(expected)}"
    row = plain_logits(engine.target, prompt, expected[:at])
    near = _gap(row) if params.greedy else _margin(row, params, len(prompt) + at)
    return f"token {at} is {tokens[at]}, not {expected[at]}; {near}"


def _gap(row: torch.Tensor) -> str:
    first, second = row.topk(2).values.tolist()
    return f"top-2 gap {first - second:.2e}"


def _margin(row: torch.Tensor, params: SamplingParams, position: int) -> str:
    """How far the random number is from the border of the token that plain decoding drew."""
    running = weights(row[None], params)[0].double().cumsum(0)
    edges = running / running[-1]
    u = uniform(params.seed or 0, torch.tensor([position]))
    return f"distance of the draw from a border {float((edges - u).abs().min()):.2e}"
