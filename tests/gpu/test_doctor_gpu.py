"""`hybridspec doctor`'s checks on a GPU: the embedded pair, recorded and replayed. Run by
`make test-gpu`."""

from __future__ import annotations

import pytest
import torch

from hybridspec.doctor.checks import examine
from hybridspec.doctor.setting import Setting

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_embedded_pair(dtype):
    found = list(examine(Setting(None, None, None, torch.device("cuda"), dtype)))
    assert not [f.line for f in found if f.state == "FAIL"]
    by_name = {f.name: f for f in found}
    for name in ("gpu", "graphs", "memory", "load", "tokens", "launcher"):
        assert by_name[name].state == "OK", by_name[name].line
    assert by_name["launcher"].value.startswith("loop: ")
    assert "conditional nodes" in by_name
    assert any(f.value == "verifications run as kernels" for f in found)
