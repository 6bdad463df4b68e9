from __future__ import annotations

import json
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from hybridspec.bench.prompts import Prompt, read_prompts
from hybridspec.checkpoint import source
from hybridspec.errors import CheckpointError, RequestError

ROW = {"question_id": "1", "category": "qa", "turns": ["Q?"]}


def test_parquet_without_pyarrow_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(RequestError, match=r"\"\.\[parquet\]\"` in the project"):
        read_prompts(tmp_path / "x.parquet")


def test_parquet_rows_are_numbered(tmp_path, monkeypatch):
    """With a stand-in for pyarrow, which is no dependency."""
    rows = [ROW, {**ROW, "question_id": "2", "turns": []}]
    table = SimpleNamespace(to_pylist=lambda: rows)
    monkeypatch.setitem(sys.modules, "pyarrow", SimpleNamespace(ArrowException=KeyError))
    parquet = SimpleNamespace(read_table=lambda path: table)
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", parquet)
    with pytest.raises(RequestError, match=r"x\.parquet, row 2: turns"):
        read_prompts(tmp_path / "x.parquet")
    rows.pop()
    assert read_prompts(tmp_path / "x.parquet") == [Prompt("1", "qa", "Q?")]


@pytest.fixture
def hub(tmp_path, monkeypatch):
    """A data set with two files; says what was asked for."""
    asked = []
    for part in ("qualitative", "throughput_1k"):
        (tmp_path / part).mkdir()
        row = {**ROW, "question_id": part}
        (tmp_path / part / "test.jsonl").write_text(json.dumps(row))

    def download(repo, revision, wanted, kind):
        asked.append((repo, revision, kind))
        return tmp_path

    monkeypatch.setattr(source, "download", download)
    return asked


def test_a_data_set_on_the_hub_is_read(hub):
    (prompt,) = read_prompts(Path("hub:some/set/qualitative@v1"))
    assert prompt.id == "qualitative"
    assert hub == [("some/set", "v1", "dataset")]


@pytest.mark.parametrize("name", ["hub:some/set", "hub:some/set/other"])
def test_one_file_must_be_meant(hub, name):
    files = r"there are: qualitative/test\.jsonl, throughput_1k/test\.jsonl"
    with pytest.raises(RequestError, match=rf"expected one\. .*{files}"):
        read_prompts(Path(name))


def test_what_the_hub_refuses_is_a_sentence(monkeypatch):
    def refuse(*_):
        raise CheckpointError("some/set is gated: accept its terms.")

    monkeypatch.setattr(source, "download", refuse)
    with pytest.raises(RequestError, match=r"hub:some/set cannot be had\. some/set is gated"):
        read_prompts(Path("hub:some/set"))


def test_offline_is_a_sentence(tmp_path, monkeypatch):
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    with pytest.raises(RequestError, match="HF_HUB_OFFLINE forbids a download"):
        read_prompts(Path("hub:some/set"))
    with pytest.raises(RequestError, match="cannot be had"):
        read_prompts(Path("hub:nothing"))


def test_a_file_of_that_name_is_a_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("hub:x.jsonl").write_text(json.dumps(ROW))
    assert read_prompts(Path("hub:x.jsonl")) == [Prompt("1", "qa", "Q?")]
