"""The kernels of `exact` against the float64 law, and their bits against themselves."""

from __future__ import annotations

import pytest
import torch
from gdn_forms import LENGTHS, OUTPUTS, SHAPES, STATES, distance, inputs, law

from hybridspec.kernels.gdn import exact as triton_kernels
from hybridspec.kernels.gdn.config import GDNConfig

# Values before and after every tensor that a kernel may write: a multiple of the 16 bytes at which
# the CUDA kernels' tensors must lie.
GUARD = 8
LOUD = 1e30
SHAPE = (2, 4, 32, 16)  # which all implementations serve


@pytest.fixture(params=["triton", "cuda"])
def exact(request, device):
    """Each implementation; CUDA C++ runs on a GPU only."""
    if request.param == "triton":
        return triton_kernels
    if device.type != "cuda":
        pytest.skip("CUDA C++ needs a GPU; that it compiles is tested without one")
    from hybridspec.kernels.gdn import exact_cuda

    return exact_cuda


def serve(exact, shape) -> None:
    if exact is not triton_kernels and not exact.serves(*shape[2:]):
        pytest.skip("the CUDA kernels do not serve these sizes")


def guarded(like: torch.Tensor, layers: int | None = None) -> tuple[torch.Tensor, torch.Tensor]:
    """A NaN-filled tensor of that shape inside a longer one of LOUD, and the latter."""
    shape = like.shape if layers is None else (layers, *like.shape)
    size = like.new_empty(shape).numel()
    whole = torch.full((size + 2 * GUARD,), LOUD, device=like.device)
    inside = whole[GUARD : GUARD + size].view(shape)
    inside.fill_(float("nan"))
    return inside, whole


def untouched(whole: torch.Tensor) -> bool:
    return bool((whole[:GUARD] == LOUD).all() and (whole[-GUARD:] == LOUD).all())


def scalar(value: int, device: torch.device) -> torch.Tensor:
    return torch.tensor(value, dtype=torch.int32, device=device)


def run(exact, x, w, device, *config):
    """o, z of a verification of w tokens; what it left alone is NaN or LOUD still."""
    (o, around_o), (z, around_z) = guarded(x.v), guarded(x.v)
    args = (x.q, x.k, x.v, x.beta, x.g.exp(), x.state)
    exact.verify(*args, o, z, scalar(w, device), *config)
    assert untouched(around_o)
    assert untouched(around_z)
    assert o[w:].isnan().all()
    assert z[w:].isnan().all()
    return o, z


def on(device, shape=SHAPE, **kwargs):
    x = inputs(shape=shape, **kwargs)
    return type(x)(*(t.to(device) for t in x))


@pytest.mark.parametrize("shape", [*SHAPES, SHAPE, (2, 4, 128, 40)])
def test_outputs_and_committed_states_are_the_law_s(shape, exact, device):
    serve(exact, shape)
    x = on(device, shape=shape, seed=5)
    o, z = run(exact, x, 16, device)
    expected, states = law(x)
    assert distance(o, expected) < OUTPUTS
    alpha = x.g.exp()
    for m in LENGTHS:
        state = x.state.repeat(2, 1, 1, 1)
        layers = [t.repeat(2, *[1] * t.dim()) for t in (z, x.k, alpha)]
        exact.commit(state, *layers, scalar(m, device))
        assert distance(state[0], states[m - 1]) < STATES * 10  # m roundings a number, each 6e-8
        assert torch.equal(state[0], state[1])


@pytest.mark.parametrize("g", [-80.0, -1e-6, 0.0])
def test_extreme_decay(g, exact, device):
    x = on(device, seed=2, g=g)
    expected, _ = law(x)
    assert distance(run(exact, x, 16, device)[0], expected) < OUTPUTS


@pytest.mark.parametrize("w", LENGTHS)
def test_a_token_s_bits_do_not_depend_on_w(w, exact, device):
    x = on(device, seed=1)
    whole, part = run(exact, x, 16, device), run(exact, x, w, device)
    assert torch.equal(whole[0][:w], part[0][:w])
    assert torch.equal(whole[1][:w], part[1][:w])


@pytest.mark.parametrize("cut", [1, 3, 8, 15])
def test_any_division_into_rounds_gives_the_same_bits(cut, exact, device):
    x = on(device, seed=3)
    alpha = x.g.exp()
    o, z = run(exact, x, 16, device)
    one, two = x.state[None].clone(), x.state[None].clone()
    exact.commit(one, z[None], x.k[None], alpha[None], scalar(16, device))

    exact.commit(two, z[None], x.k[None], alpha[None], scalar(cut, device))
    rest = type(x)(*(t.roll(-cut, 0) for t in x[:5]), two[0].clone())
    later_o, later_z = run(exact, rest, 16 - cut, device)
    assert torch.equal(later_o[: 16 - cut], o[cut:])
    later = (later_z[None], rest.k[None], rest.g.exp()[None], scalar(16 - cut, device))
    exact.commit(two, *later)
    assert torch.equal(one, two)


def test_a_row_s_bits_do_not_depend_on_its_neighbours(exact, device):
    x = on(device, seed=4)
    hostile = x._replace(v=x.v.clone(), state=x.state.clone())
    hostile.v[:, 1:] = float("nan")
    hostile.state[1:] = 3e38
    assert torch.equal(run(exact, x, 9, device)[0][:9, 0], run(exact, hostile, 9, device)[0][:9, 0])


@pytest.mark.parametrize("config", [GDNConfig(1, 1), GDNConfig(4, 1), GDNConfig(16, 2)])
def test_every_cut_is_right(config, device):
    x = on(device, shape=(3, 6, 7, 13), seed=6)
    assert distance(run(triton_kernels, x, 16, device, config)[0], law(x)[0]) < OUTPUTS


def test_a_commit_leaves_other_layers_room(exact, device):
    """Layers need not be neighbours in memory, and what lies between them stays."""
    x = on(device, seed=8)
    _, z = run(exact, x, 16, device)
    wide = torch.full((2, 2, *x.state.shape), LOUD, device=device)
    wide[:, 0] = x.state
    factors = [torch.stack([t, t]) for t in (z, x.k, x.g.exp())]
    exact.commit(wide[:, 0], *factors, scalar(5, device))
    assert (wide[:, 1] == LOUD).all()
    assert distance(wide[1, 0], law(x)[1][4]) < STATES * 10  # as above
