"""Sampling parameters: what is taken, and what is refused by name."""

from __future__ import annotations

import pytest
import torch

from hybridspec.core import (
    GPU_PREFILL_CHUNK,
    PREFILL_CHUNK,
    GenerationStats,
    RoundStats,
    SamplingParams,
    prefill_chunk,
)
from hybridspec.errors import RequestError


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("temperature", None),
        ("temperature", "3"),
        ("top_k", True),
        ("seed", 0.0),
        ("seed", ""),
        ("stop", "END"),
        ("stop", (1,)),
        ("stop", iter(["x"])),
        ("stop_token_ids", 5),
        ("stop_token_ids", ("x",)),
        ("max_tokens", 2.5),
        ("stop_token_ids", (True,)),
        ("ignore_eos", "no"),
        ("ignore_eos", None),
        ("stop", ("a", "b\udcff")),
        ("stop", ("",)),
        ("presence_penalty", "1"),
        ("presence_penalty", 2.1),
        ("frequency_penalty", True),
        ("frequency_penalty", -2.5),
        ("repetition_penalty", None),
        ("repetition_penalty", 0),
        ("repetition_penalty", float("nan")),
        ("logprobs", True),
        ("logprobs", 21),
        ("logprobs", -1),
        ("logit_bias", 5),
        ("logit_bias", "ab"),
        ("logit_bias", {"5": 1.0}),
        ("logit_bias", [5]),
        ("logit_bias", [(5, "x")]),
        ("logit_bias", [(5, 1.0), (5, 2.0)]),
    ],
)
def test_another_type_is_refused_by_name(field, value):
    with pytest.raises(RequestError, match=f"^{field} is .*; expected"):
        SamplingParams(**{field: value})


@pytest.mark.parametrize(("field", "value"), [("top_k", 5), ("top_p", 0.9), ("min_p", 0.1)])
def test_a_filter_without_a_temperature_is_refused_by_name(field, value):
    """Greedy decoding would drop it in silence; a seed asks for what greedy decoding gives."""
    with pytest.raises(RequestError, match=rf"^{field} is .* temperature 0 .*Add a temperature"):
        SamplingParams(**{field: value})
    assert SamplingParams(temperature=0.5, **{field: value})
    assert SamplingParams(top_k=0, top_p=1, min_p=0, seed=3).greedy


@pytest.mark.parametrize(
    ("most", "more"), [(("x",) * 256, "x"), (("x" * 30_000, "x" * 35_536), "y")]
)
def test_stop_strings_are_bounded(most, more):
    said = r"^stop is .*; expected at most 256 strings of 65,536 characters in all\.$"
    with pytest.raises(RequestError, match=said):
        SamplingParams(stop=(*most, more))
    assert SamplingParams(stop=most)


def test_a_list_given_is_copied():
    stops = ["a"]
    params = SamplingParams(stop=stops)  # type: ignore[arg-type]
    stops.append("b")
    assert params.stop == ("a",)
    assert hash(params)


@pytest.mark.parametrize("value", [100.5, -101, float("nan"), float("inf")])
def test_a_bias_out_of_range_names_its_token(value):
    with pytest.raises(RequestError, match=r"^logit_bias gives token 7 .*from -100 to 100"):
        SamplingParams(logit_bias=[(3, 1), (7, value)])


def test_a_bias_may_be_a_mapping():
    """Kept as pairs, so that parameters can be compared and hashed."""
    params = SamplingParams(logit_bias={7: -100, 3: 2.5})
    assert params == SamplingParams(logit_bias=[[7, -100.0], [3, 2.5]])
    assert params.logit_bias == ((7, -100.0), (3, 2.5))
    assert hash(params)


def test_only_half_precision_on_a_gpu_takes_large_pieces_of_a_prompt():
    cpu, gpu = torch.device("cpu"), torch.device("cuda")
    assert prefill_chunk(cpu, torch.bfloat16) == prefill_chunk(gpu, torch.float32) == PREFILL_CHUNK
    assert prefill_chunk(gpu, torch.bfloat16) == GPU_PREFILL_CHUNK


def test_statistics_are_shown_by_their_sums():
    rounds = (RoundStats(4, 3, 4), RoundStats(4, 0, 1))
    assert repr(GenerationStats(rounds, 0.5, 0.25, cached_tokens=7)) == (
        "<GenerationStats: 2 rounds, 3 accepted, mean acceptance length 2.50, prefill 0.500 s, "
        "decoding 0.250 s, cached_tokens 7>"
    )
