import pytest
import torch
from scipy import stats

from hybridspec.runtime.philox import philox, uniform

F = 0xFFFFFFFF

# The known answers that Random123 publishes for philox4x32 with 10 rounds: counter, key, output.
KNOWN = [
    ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
    ((F, F, F, F), (F, F), (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
    (
        (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
        (0xA4093822, 0x299F31D0),
        (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
    ),
]


def plain_philox(counter, key):
    """The same function on Python's unbounded integers, one counter at a time."""
    c0, c1, c2, c3 = counter
    k0, k1 = key
    for _ in range(10):
        first, second = 0xD2511F53 * c0, 0xCD9E8D57 * c2
        c0, c1, c2, c3 = (second >> 32) ^ c1 ^ k0, second & F, (first >> 32) ^ c3 ^ k1, first & F
        k0, k1 = (k0 + 0x9E3779B9) & F, (k1 + 0xBB67AE85) & F
    return c0, c1, c2, c3


@pytest.mark.parametrize(("counter", "key", "expected"), KNOWN)
def test_published_answers(counter, key, expected):
    words = philox(tuple(torch.tensor([c]) for c in counter), key)
    assert tuple(int(word) for word in words) == expected


@pytest.mark.parametrize("seed", [0, 1, 2**32, 2**63, 2**64 - 1, 0x0123456789ABCDEF])
def test_uniform_is_the_first_53_bits_of_counter_position_0_stream(seed):
    positions = [0, 1, 2, 262143, 2**32 - 1, 2**32, 2**40 + 5]
    drawn = uniform(seed, torch.tensor(positions), stream=3).tolist()
    for position, value in zip(positions, drawn, strict=True):
        counter = (position & F, position >> 32, 0, 3)
        high, low, _, _ = plain_philox(counter, (seed & F, seed >> 32))
        assert value == (((high << 32) | low) >> 11) / 2**53


def test_a_seed_in_a_tensor_means_the_same_bits():
    positions = torch.arange(8)
    assert torch.equal(uniform(2**64 - 2, positions), uniform(torch.tensor(-2), positions))


def test_seeds_streams_and_positions_differ():
    positions = torch.arange(64)
    rows = [uniform(s, positions, stream) for s in (0, 1, 2**32) for stream in (0, 1)]
    assert torch.cat(rows).unique().numel() == 6 * 64


def test_a_position_has_its_number_in_any_company():
    alone = torch.cat([uniform(9, torch.tensor([p])) for p in range(50)])
    together = uniform(9, torch.arange(50).view(5, 10))
    assert together.shape == (5, 10)
    assert torch.equal(together.flatten(), alone)


def test_uniformity():
    u = uniform(2026, torch.arange(200_000))
    assert u.dtype == torch.float64
    assert float(u.min()) >= 0.0
    assert float(u.max()) < 1.0
    # A true uniform sequence falls below this p-value at one seed in ten thousand.
    assert stats.kstest(u.numpy(), "uniform").pvalue > 1e-4
    # Lag-1 correlation of 200k independent numbers has a standard deviation of 0.0022.
    assert abs(float(torch.corrcoef(torch.stack([u[:-1], u[1:]]))[0, 1])) < 0.01
