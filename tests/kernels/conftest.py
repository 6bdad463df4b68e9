"""Kernels run on the GPU where there is one; elsewhere Triton interprets them, slowly and in fp32.

The switch is read when a kernel is defined, so it stands before every import of one.
"""

from __future__ import annotations

import os

import pytest
import torch

if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"


@pytest.fixture(scope="session")
def device() -> torch.device:
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")
