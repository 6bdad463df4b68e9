from __future__ import annotations

import pytest

from hybridspec import assets
from hybridspec.errors import CheckpointError, OptionError
from hybridspec.sources import find_pair


def test_who_is_meant(tmp_path):
    (tmp_path / "config.json").write_text("{}")
    assert find_pair() == (assets.TARGET, assets.DRAFTER)
    assert find_pair(None, tmp_path) == (assets.TARGET, tmp_path)
    assert find_pair(str(tmp_path)) == (tmp_path, None)
    assert find_pair(tmp_path, tmp_path) == (tmp_path, tmp_path)


@pytest.mark.parametrize("draft", ["", "/none/at/all"])
def test_the_drafter_is_named_when_it_is_the_one_that_is_missing(draft):
    for model in (None, assets.TARGET):
        with pytest.raises(CheckpointError, match=r"^The drafter .* no checkpoint at"):
            find_pair(model, draft)
    with pytest.raises(CheckpointError, match=r"^There is no checkpoint at"):
        find_pair("/none/at/all", assets.DRAFTER)


def test_a_folder_in_the_home_has_no_revisions_either(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "config.json").write_text("{}")
    assert find_pair("~/model")[0] == tmp_path / "model"
    with pytest.raises(OptionError, match=r"^revision is 'main', but the folder ~/model has no"):
        find_pair("~/model", revision="main")


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"model": 5}, "^model is 5; expected a folder or a Hub id"),
        ({"model": b"x"}, "^model is b'x'"),
        ({"draft": True}, "^draft is True"),
        ({"revision": 5, "model": "a/b"}, "^revision is 5; expected a branch"),
        ({"revision": "", "model": "a/b"}, "^revision is ''"),
        ({"revision": "\udcff", "model": "a/b"}, "^revision is .*expected a branch"),
        ({"revision": "main"}, "^revision is 'main', but the embedded pair has no revisions"),
        ({"draft_revision": "main"}, "^draft_revision is 'main', but the embedded pair has no"),
        ({"revision": "main", "model": assets.TARGET}, "^revision is 'main', but the folder /"),
        ({"draft_revision": "v1", "draft": assets.DRAFTER}, "^draft_revision is 'v1', but the f"),
        ({"draft_revision": "v1", "model": assets.TARGET}, "'v1', but no drafter is named"),
    ],
)
def test_what_is_no_source_and_revisions_of_what_has_none(options, told):
    with pytest.raises(OptionError, match=told):
        find_pair(**options)


@pytest.mark.parametrize("model", ["/none/a", "owner/none-a"])
def test_both_are_named_when_both_are_missing(model, monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(CheckpointError) as refused:
        find_pair(model, "/none/b")
    target, drafter = str(refused.value).split(" The drafter cannot be used: ")
    assert target.startswith("The target cannot be used: There is no ")
    assert model in target
    assert "'/none/b'" in drafter
