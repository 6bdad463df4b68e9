"""Sampling parameters: what is taken, and what is refused by name."""

from __future__ import annotations

import pytest
import torch

from hybridspec.core import GPU_PREFILL_CHUNK, PREFILL_CHUNK, SamplingParams, prefill_chunk
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


def test_a_list_given_is_copied():
    stops = ["a"]
    params = SamplingParams(stop=stops)  # type: ignore[arg-type]
    stops.append("b")
    assert params.stop == ("a",)
    assert hash(params)


def test_only_half_precision_on_a_gpu_takes_large_pieces_of_a_prompt():
    cpu, gpu = torch.device("cpu"), torch.device("cuda")
    assert prefill_chunk(cpu, torch.bfloat16) == prefill_chunk(gpu, torch.float32) == PREFILL_CHUNK
    assert prefill_chunk(gpu, torch.bfloat16) == GPU_PREFILL_CHUNK
