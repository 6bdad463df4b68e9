from __future__ import annotations

import json

import pytest

from hybridspec.errors import CheckpointError
from hybridspec.jsonfile import MOST_NESTED, read_json, shown

TEXTS = ["{", "", "[1]", "3", "null", "[" * 100_000, '{"a":' * 100_000]


@pytest.mark.parametrize("text", TEXTS, ids=lambda text: text[:10])
def test_a_file_that_is_not_a_json_object_is_named(tmp_path, text):
    path = tmp_path / "config.json"
    path.write_text(text)
    with pytest.raises(CheckpointError, match=r"config\.json .*Download it again"):
        read_json(path)


def test_a_file_that_is_not_utf8_is_named(tmp_path):
    path = tmp_path / "config.json"
    path.write_bytes(b'{"a": "\xff"}')
    with pytest.raises(CheckpointError, match=r"config\.json cannot be read as JSON"):
        read_json(path)


@pytest.mark.parametrize("bracket", ["[]", '{"a":}'])
@pytest.mark.parametrize("levels", [MOST_NESTED - 1, MOST_NESTED, 400, 900])
def test_what_python_reads_but_could_not_write_is_refused(tmp_path, levels, bracket):
    """Within Python's own limit too: comparing or showing such a value would pass it."""
    path = tmp_path / "config.json"
    path.write_text('{"a":' + bracket[:-1] * levels + "1" + bracket[-1] * levels + "}")
    if levels < MOST_NESTED:
        assert json.dumps(read_json(path))
    else:
        with pytest.raises(CheckpointError, match="nested too deeply"):
            read_json(path)


def test_a_long_value_is_cut_in_a_sentence():
    assert shown([1, None]) == "[1, null]"
    assert len(shown("x" * 10**6)) < 300
