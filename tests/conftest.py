"""Without a GPU, Triton interprets kernels, slowly and in fp32. The switch is read when a kernel is
defined, so it stands here, before any test module imports one."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
import torch

sys.path.insert(0, str(Path(__file__).parent))
if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"
    from interpreted import products_by_rows
    from quick_interpreter import quicken

    products_by_rows()
    quicken()


@pytest.fixture(autouse=True)
def _no_grad():
    """The engine never differentiates; a graph kept by accident would cost memory unseen."""
    with torch.no_grad():
        yield
