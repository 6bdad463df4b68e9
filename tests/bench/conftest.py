from __future__ import annotations

import pytest

from disk_pair import DiskPair, write_pair


@pytest.fixture(scope="session")
def pair(tmp_path_factory) -> DiskPair:
    """A random pair: hardly a draft is accepted."""
    return write_pair(tmp_path_factory.mktemp("random"))


@pytest.fixture(scope="session")
def flat_pair(tmp_path_factory) -> DiskPair:
    """A pair that says one token for ever: every draft is accepted."""
    return write_pair(tmp_path_factory.mktemp("flat"), "flat")
