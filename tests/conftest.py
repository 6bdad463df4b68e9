from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(autouse=True)
def _no_grad():
    """The engine never differentiates; a graph kept by accident would cost memory unseen."""
    with torch.no_grad():
        yield
