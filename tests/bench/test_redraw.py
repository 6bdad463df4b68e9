from __future__ import annotations

import json
import subprocess
import sys

import pytest

from bench.synthetic import synthetic_results
from hybridspec.bench.redraw import redraw
from hybridspec.errors import RequestError

STEMS = ["speedup", "acceptance", "round_cost"]


def results(tmp_path, **changes):
    path = tmp_path / "speed.json"
    path.write_text(json.dumps({**synthetic_results(tmp_path), **changes}))
    return path


def test_pictures_come_from_the_figures_alone(tmp_path):
    results(tmp_path)
    (tmp_path / "speed.records.jsonl").unlink()
    assert [path.stem for path in redraw(tmp_path)] == STEMS
    assert (tmp_path / "speedup.png").exists()


def test_the_verb_draws_without_torch(tmp_path):
    results(tmp_path)
    code = (
        "import sys; sys.modules['torch'] = None\n"
        "from hybridspec.cli.bench import app\n"
        "app(['plot', sys.argv[1]], standalone_mode=False)\n"
    )
    command = [sys.executable, "-c", code, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.stdout.splitlines() == [f"Drew {tmp_path / stem}.png" for stem in STEMS]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", r"\(no JSON\)"),
        ("[" * 100_000, r"\(no JSON\)"),
        ("[]", "its schema is None"),
        ('{"schema": "hybridspec.bench.speed/2"}', "its schema is 'hybridspec.bench.speed/2'"),
        ('{"schema": "hybridspec.bench.speed/1"}', r"\(KeyError: 'systems'\)"),
    ],
)
def test_another_document_is_refused(tmp_path, text, said):
    (tmp_path / "speed.json").write_text(text)
    with pytest.raises(RequestError, match=f"does not hold the results of a speed bench.*{said}"):
        redraw(tmp_path)


def test_systems_of_another_shape_are_refused(tmp_path):
    results(tmp_path, systems={"ar": 5, "dflash": None})
    with pytest.raises(RequestError, match="does not hold the results of a speed bench"):
        redraw(tmp_path)


def test_a_folder_without_results_is_refused(tmp_path):
    with pytest.raises(RequestError, match=r"speed\.json cannot be read: No such file"):
        redraw(tmp_path)
