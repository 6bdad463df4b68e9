"""Compare a system's answers with plain decoding's, and say how near a tie a difference was."""

from __future__ import annotations

from collections.abc import Sequence

from hybridspec.bench.equality import plain_logits
from hybridspec.core import SamplingParams
from hybridspec.engine import Engine


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
                    f"prompt {number}, {system}: {_where(engine, prompt, expected, tokens)}"
                )
    return found


def _where(
    engine: Engine, prompt: list[int], expected: Sequence[int], tokens: Sequence[int]
) -> str:
    at = next((i for i, (a, b) in enumerate(zip(expected, tokens, strict=False)) if a != b), None)
    if at is None:
        return f"{len(tokens)} tokens instead of {len(expected)}"
    first, second = plain_logits(engine.target, prompt, expected[:at]).topk(2).values.tolist()
    return f"token {at} is {tokens[at]}, not {expected[at]}; top-2 gap {first - second:.2e}"
