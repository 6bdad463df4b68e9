"""What `import hybridspec` offers, and that it costs nothing until used."""

from __future__ import annotations

import subprocess
import sys

import pytest

import hybridspec


def test_the_names_of_the_public_api():
    from hybridspec.core import SamplingParams
    from hybridspec.engine import Engine
    from hybridspec.errors import HybridSpecError

    assert set(hybridspec.__all__) == {"Engine", "HybridSpecError", "SamplingParams", "__version__"}
    assert hybridspec.Engine is Engine
    assert hybridspec.SamplingParams is SamplingParams
    assert hybridspec.HybridSpecError is HybridSpecError
    for name in hybridspec.__all__:
        assert getattr(hybridspec, name) is not None


def test_another_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'engines'"):
        _ = hybridspec.engines


def test_the_version_is_the_distributions():
    from importlib.metadata import version

    assert hybridspec.__version__ == version("hybridspec")


@pytest.mark.parametrize(
    ("statement", "absent"),
    [
        ("import hybridspec", "torch"),
        ("import hybridspec.engine", "transformers"),
        ("import hybridspec.engine", "torch._dynamo"),
    ],
)
def test_imports_stay_light(statement, absent):
    """torch takes a second to import, dynamo another, and transformers is no dependency at all."""
    program = f"import sys; {statement}; sys.exit({absent!r} in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def test_errors_are_of_one_family():
    from hybridspec.errors import CheckpointError, HybridSpecError, RequestError

    assert issubclass(CheckpointError, HybridSpecError)
    assert issubclass(RequestError, HybridSpecError)
