"""Every named system gives plain decoding's tokens: lengths may depend on all but the draws."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
import torch
from scipy.stats import chi2_contingency

from committed import assert_committed
from hybridspec.catalogue import CATALOGUE
from hybridspec.core import SamplingParams
from hybridspec.policy.length import Choice
from hybridspec.systems import System
from lossless import differences
from scripted import RIGHT, prompt_ids, run, script, scripted_engine
from test_catalogue import MEANT, PROFILE

SYSTEMS = (*MEANT, "length16", "replayssm", "ema", "cascade")
SAMPLING = {
    "greedy": {},
    "seeded": {"temperature": 0.8, "top_p": 0.95, "seed": 4},
}
PLANS = {"random": (), "mixed": (0, 3, RIGHT, 1, 7, 2, RIGHT)}
TOKENS, DRAWS = 60, 300


@pytest.fixture(scope="module")
def engine():
    engine = scripted_engine(torch.float64)
    engine.profile = PROFILE
    return engine


def test_all_of_the_catalogue_is_tested():
    assert set(CATALOGUE) <= {name.partition(":")[0] for name in SYSTEMS}


@pytest.mark.parametrize(
    ("sampling", "plan"),
    [
        ("greedy", "random"),
        ("greedy", "mixed"),
        pytest.param(
            "seeded", "random", marks=pytest.mark.full
        ),  # of fixed lengths: test_losslessness
        ("seeded", "mixed"),
    ],
)
def test_tokens_of_plain_decoding(engine, sampling, plan):
    """Several answers, so that those which learn change their lengths meanwhile."""
    params = SamplingParams(max_tokens=TOKENS, **SAMPLING[sampling])
    prompt = prompt_ids()
    script(engine, prompt, PLANS[plan], max_tokens=TOKENS, **SAMPLING[sampling])
    assert differences(engine, [prompt] * 2, SYSTEMS, params) == []


@pytest.mark.parametrize("system", ["hybridspec", "auto", "evict+replayssm", "cascade"])
def test_committed_states_are_those_of_the_emitted_tokens(engine, system):
    params = SamplingParams(max_tokens=TOKENS)
    expected = script(engine, prompt_ids(), PLANS["mixed"], max_tokens=TOKENS)
    answer, stream = run(engine, prompt_ids(), system, params)
    assert answer.token_ids == expected
    assert_committed(engine, stream, [*prompt_ids(), *expected[:-1]])


@dataclass
class Peeking:
    """The drafts' own experts decide how many of them are verified (Proposition 2 allows it)."""

    longest: int = 8
    lookahead: int = 6
    scored: bool = True
    seen: list[int] = field(default_factory=list)

    def drafts(self) -> int:
        return self.longest - 1

    def select(self, proposal) -> Choice:
        return Choice(1 if proposal is None else 2)

    def correct(self, choice: Choice, experts: torch.Tensor) -> int:
        w = choice.w0 + int(experts.sum()) % (len(experts) - choice.w0 + 1)
        self.seen.append(w)
        return w


def test_the_distribution_does_not_depend_on_the_policy(engine):
    """The sixth token of seeded answers under a policy that reads experts, against the frequencies
    of plain decoding with other seeds. Drafts are the greedy answer's, so some are accepted."""
    prompt, policy = prompt_ids(), Peeking()
    script(engine, prompt, (RIGHT,), max_tokens=8)
    peeking = System("peeking", policy, "exact")
    plain = [_sixth(engine, prompt, "ar", seed) for seed in range(DRAWS)]
    other = [_sixth(engine, prompt, peeking, seed) for seed in range(DRAWS, 2 * DRAWS)]
    common = sorted(set(plain), key=plain.count)[-5:]
    rows = [[tokens.count(c) for c in common] for tokens in (plain, other)]
    rows = [[*row, DRAWS - sum(row)] for row in rows]
    assert chi2_contingency(rows).pvalue > 1e-4  # a false alarm for one seed in ten thousand
    assert len(set(policy.seen)) > 3


def _sixth(engine, prompt, system, seed: int) -> int:
    params = SamplingParams(max_tokens=8, temperature=0.25, top_k=8, seed=seed)
    return engine.generate(prompt, params, system=system).token_ids[5]
