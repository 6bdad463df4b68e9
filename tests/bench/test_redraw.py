from __future__ import annotations

import json
import subprocess
import sys

import pytest

from bench.paper_table import document
from bench.synthetic import synthetic_results
from hybridspec import assets
from hybridspec.bench.redraw import redraw
from hybridspec.errors import RequestError
from hybridspec.policy.profile import ProfileError

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


@pytest.mark.parametrize("name", ["speed.json", "components.json", "other.json"])
@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", r"\(no JSON\)"),
        ("[" * 100_000, r"\(no JSON\)"),
        ("[]", r"\(no JSON object\)"),
        ("{}", "its schema is 'None'"),
        ('{"schema": ["x"]}', "its schema is "),
        ('{"schema": "hybridspec.bench.speed/2"}', "its schema is 'hybridspec.bench.speed/2'"),
        ('{"schema": "hybridspec.bench.speed/1"}', r"\(KeyError: 'systems'\)"),
        ('{"schema": "hybridspec.bench.profile/1"}', r"\(KeyError: 'lengths'\)"),
    ],
)
def test_another_document_is_refused(tmp_path, name, text, said):
    (tmp_path / name).write_text(text)
    with pytest.raises(RequestError, match=f"does not hold what can be drawn.*{said}.*Expected"):
        redraw(tmp_path / name)


def test_a_document_without_measurements_is_refused(tmp_path):
    (tmp_path / "components.json").write_text(json.dumps({**document(), "lengths": []}))
    with pytest.raises(RequestError, match=r"\(it has no measurements\)"):
        redraw(tmp_path)


def test_times_of_nothing_are_refused(tmp_path, monkeypatch):
    results(tmp_path)
    monkeypatch.setattr("hybridspec.bench.plot.draw", lambda *_: 1 / 0)
    with pytest.raises(RequestError, match=r"\(ZeroDivisionError: "):
        redraw(tmp_path)


def test_systems_of_another_shape_are_refused(tmp_path):
    results(tmp_path, systems={"ar": 5, "dflash": None})
    with pytest.raises(RequestError, match="does not hold what can be drawn"):
        redraw(tmp_path)


def test_a_folder_without_results_is_refused(tmp_path):
    with pytest.raises(RequestError, match=r"no finished results.*speed\.json.*components\.json"):
        redraw(tmp_path)
    with pytest.raises(RequestError, match=r"is no folder and no file.*calibration profile"):
        redraw(tmp_path / "none")


def test_all_that_a_folder_holds_is_drawn(tmp_path):
    results(tmp_path)
    (tmp_path / "components.json").write_text(json.dumps(document()))
    assert [path.stem for path in redraw(tmp_path)] == [*STEMS, "components"]
    assert [path.stem for path in redraw(tmp_path / "components.json")] == ["components"]


def test_a_calibration_profile_is_drawn_beside_it(tmp_path):
    path = tmp_path / "mine.json"
    path.write_bytes(assets.PROFILE.read_bytes())
    names = [picture.relative_to(tmp_path).name for picture in redraw(path)]
    assert names == ["mine.reliability.png", "mine.cost.png"]


def test_a_damaged_calibration_profile_is_refused(tmp_path):
    path = tmp_path / "mine.json"
    body = json.loads(assets.PROFILE.read_text())
    path.write_text(json.dumps(body | {"s_ms": None}))
    with pytest.raises(ProfileError, match="is damaged: a field has another form"):
        redraw(path)
    path.write_text(json.dumps(body | {"schema": "hybridspec.profile/9"}))
    with pytest.raises(ProfileError, match=r"has the schema 'hybridspec\.profile/9'"):
        redraw(path)
    path.write_text(json.dumps(body | {"data": {"reliability": {"confidence": 3}}}))
    with pytest.raises(RequestError, match="does not hold what can be drawn"):
        redraw(path)
