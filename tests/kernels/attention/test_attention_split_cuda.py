"""Attention by warpgroups without a GPU: what is launched, and what is refused before."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch

from hybridspec.kernels import cuda
from hybridspec.kernels.attention import split_cuda
from hybridspec.kernels.attention.config import Sight
from hybridspec.kernels.attention.forms import Form, attention
from hybridspec.kernels.cuda import KernelError
from hybridspec.kernels.last import Workspace

HALF = torch.bfloat16
AT = torch.tensor(3, dtype=torch.int32)


@pytest.fixture
def launched(monkeypatch):
    """Launches by name: grid and arguments. Of a card with six multiprocessors."""
    found = {}

    def load(package, file, name, sizes, threads, device, shared):
        def launch(grid, arguments, *, early):
            found[name] = (grid, arguments, dict(sizes))

        return SimpleNamespace(launch=launch)

    card = SimpleNamespace(multi_processor_count=6)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: card)
    monkeypatch.setattr(cuda, "load", load)
    return found


def tensors(heads: int = 16, kv: int = 2, size: int = 256, rows: int = 16) -> dict:
    made = {"q": torch.zeros(rows, heads, size, dtype=HALF)}
    made |= {name: torch.zeros(kv, 40, size, dtype=HALF)[:, 8:] for name in ("keys", "values")}
    space = Workspace.empty("cpu", 16 * heads * 4 * 258)
    return made | {"position": AT, "length": AT, "workspace": space}


def test_a_block_a_multiprocessor_and_splits_to_match(launched):
    given = tensors()
    split_cuda.attend(**given)
    grid, arguments, sizes = launched["attend"]
    assert grid == (6,)
    assert sizes == {"KV": 2, "SHARED": 8, "MOST": 3}
    parts, stats = arguments[5:7]
    assert parts.data_ptr() == given["workspace"].parts.data_ptr()
    assert stats.numel() >= 2 * 16 * 16 * 4  # maxima and totals of 16 rows, 16 heads, 3 + 1 splits
    assert (parts.numel() - stats.numel()) == 16 * 16 * 4 * 256
    assert arguments[-1] == 40 * 256
    gate, out = torch.zeros(16, 9000, dtype=HALF), torch.zeros(16, 16 * 256, dtype=HALF)
    split_cuda.combine(gate, 2, AT, AT, out, given["workspace"])
    grid, arguments, sizes = launched["combine"]
    assert grid == (16, 32)
    assert arguments[1].data_ptr() == stats.data_ptr()
    assert arguments[3] == 9000


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"heads": 12}, "12 heads over 2 key heads; expected 16 rows and 8 or 16"),
        ({"size": 128}, "expected heads of 256"),
        ({"rows": 15}, "15 rows of 16 heads"),
        ({"dtype": torch.float16}, "q of the kernel attend is torch.float16"),
        ({"apart": True}, "keys and values that lie alike"),
        ({"small": True}, "needs a workspace of"),
    ],
)
def test_what_the_kernel_would_misread_is_refused(launched, change, said):
    sizes = {k: v for k, v in change.items() if k in ("heads", "size", "rows")}
    given = tensors(**sizes)
    if "dtype" in change:
        given["q"] = given["q"].to(change["dtype"])
    if "apart" in change:
        given["values"] = torch.zeros(2, 32, 256, dtype=HALF)
    if "small" in change:
        given["workspace"] = Workspace.empty("cpu", 1000)
    with pytest.raises((KernelError, ValueError), match=said):
        split_cuda.attend(**given)
    assert not launched


def test_results_that_do_not_hold_all_rows_are_refused(launched):
    gate, out = torch.zeros(16, 9000, dtype=HALF), torch.zeros(8, 16 * 256, dtype=HALF)
    with pytest.raises(KernelError, match="combine has 8 rows"):
        split_cuda.combine(gate, 2, AT, AT, out, tensors()["workspace"])
    assert not launched


@pytest.mark.parametrize("change", [{"gated": False}, {"sight": Sight(window=8)}])
def test_the_form_refuses_other_layers_before_it_launches(monkeypatch, change):
    def never(*given, **more):
        raise AssertionError("launched")

    monkeypatch.setattr("hybridspec.kernels.attention.forms.prepare", never)
    given = {"gated": True, "form": Form.WARPGROUPS} | change
    with pytest.raises(KernelError, match="gated attention to the past"):
        attention(*[None] * 10, **given)


def test_other_sizes_dtypes_and_devices_are_served_otherwise():
    cpu = torch.device("cpu")
    assert Form.of_target(16, 2, 256, HALF, cpu) is Form.APART
    assert Form.APART.room(16, 2, 256, 1000, cpu) == split_room(1000)


def split_room(rows: int) -> tuple[int, int]:
    from hybridspec.kernels.attention.split import room

    return room(16, 2, 256, rows)
