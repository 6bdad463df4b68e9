"""What `hybridspec calibrate` says where its extra is not installed."""

from __future__ import annotations

import sys


def test_a_missing_extra_is_a_sentence_with_the_command_of_the_readme(
    command, tmp_path, monkeypatch
):
    monkeypatch.setitem(sys.modules, "sklearn", None)
    got = command("calibrate", "--prompts", "none.jsonl", "--out", str(tmp_path / "profile.json"))
    got.refused("scikit-learn", '`pip install -c constraints.txt ".[calibrate]"`')
