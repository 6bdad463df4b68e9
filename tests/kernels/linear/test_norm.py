"""What the first norm takes: rows of an embedding, or any stream."""

from __future__ import annotations

import pytest
import torch
from streams import distance, normal, room

from hybridspec.kernels.linear import norm

TOLERANCE = 1e-6  # fp32 sums of at most 200 squares, each rounded to 6e-8


@pytest.mark.parametrize("n", [1, 16, 33, 200])
def test_a_stream_is_left_for_its_norm(n, device):
    x, f = normal(16, n).to(device), normal(n, seed=1).to(device)
    after = norm.Next(f, room(n, device))
    norm.prepare(x, after)
    scaled, squares = after.normed
    assert torch.equal(scaled, x * f)
    padded = torch.nn.functional.pad(x, (0, -n % 16)).double().cpu()
    assert distance(squares, padded.view(16, -1, 16).square().sum(-1).T) < TOLERANCE


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
def test_rows_of_an_embedding_become_the_stream(dtype, device):
    table, f = normal(50, 33).to(device), normal(33, seed=1).to(device)
    tokens = (
        torch.randint(50, (16,), generator=torch.Generator().manual_seed(2)).to(dtype).to(device)
    )
    x, after = torch.full((16, 33), float("nan"), device=device), norm.Next(f, room(33, device))
    norm.embed(tokens, table, x, after)
    assert torch.equal(x, table[tokens.long()])
    assert torch.equal(after.normed.scaled, x * f)
    assert distance(after.normed.squares.sum(0), x.double().cpu().square().sum(1)) < TOLERANCE
