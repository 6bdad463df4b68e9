"""Kernels run on the GPU where there is one; elsewhere they are interpreted (tests/conftest.py)."""

from __future__ import annotations

import pytest
import torch


@pytest.fixture(scope="session")
def device() -> torch.device:
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")
