from __future__ import annotations

import json

import pytest

from hybridspec.bench import component_times
from hybridspec.bench.files import COMPONENTS, COMPONENTS_SCHEMA
from hybridspec.bench.profile import main


@pytest.fixture
def line(command):
    """Arguments of a small profile: 2 prompts, answers of 4 tokens."""
    at = command.index("--systems")
    rest = command[:at] + command[at + 2 :]
    rest[rest.index("--max-tokens") + 1] = "4"
    return [*rest, "--lengths", "1,2,4,6"]


def read(out):
    return json.loads((out / COMPONENTS).read_text())


def test_a_profile_is_written_and_printed(line, out, capsys):
    assert main([*line, "--plot"]) == 0
    document, printed = read(out), capsys.readouterr().out
    assert json.loads(printed.splitlines()[-1]) == document
    assert document["schema"] == COMPONENTS_SCHEMA
    assert document["prompts"] == {"math": 1, "rag": 1}
    assert [row["w"] for row in document["lengths"]] == [1, 2, 4, 6]
    assert {row["calls"] for row in document["lengths"]} == {6}  # 3 positions of either answer
    assert document["growth"]["from"] == 4
    assert [fit["lengths"] for fit in document["fits"]] == [[2, 4, 6]]
    assert document["setup"]["verifier"] == "exact"
    assert "layer0_proxy" in document
    assert document["runs"][0]["device"] == "cpu"
    assert "From w = 4 to 6:" in printed
    assert f"Drew {out / 'components.png'}" in printed
    assert (out / "components.svg").exists()


def test_the_usual_lengths_and_a_single_one(line, out, capsys):
    assert main(line[:-2]) == 0
    assert [row["w"] for row in read(out)["lengths"]][-1] == 16
    assert main([*line[:-2], "--lengths", "3", "--force"]) == 0
    assert [row["w"] for row in read(out)["lengths"]] == [3]
    assert read(out)["growth"] is None


def test_an_earlier_profile_is_kept_unless_forced(line, out, capsys):
    out.mkdir()
    (out / COMPONENTS).write_text("mine")
    assert main(line) == 2
    assert "is there already. Replace it with --force" in capsys.readouterr().err
    assert (out / COMPONENTS).read_text() == "mine"


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--verifier", "fast"], "--verifier is 'fast'; expected one of exact, block, per-token"),
        (["--max-tokens", "40000"], "passes the context of 32768. Lower --max-tokens"),
        (["--split", "none"], "No prompt has the split 'none'"),
    ],
)
def test_what_cannot_be_measured_is_refused(line, out, capsys, more, said):
    assert main([*line, *more]) == 2
    assert said in capsys.readouterr().err
    assert not out.exists()


def test_a_pair_needs_a_drafter(flat_pair, tmp_path, capsys):
    assert main(["--model", str(flat_pair.target), "--out", str(tmp_path / "out")]) == 2
    assert "A profile needs a drafter" in capsys.readouterr().err


def test_answers_that_end_at_once_measure_nothing(line, out, capsys, monkeypatch):
    monkeypatch.setattr(component_times.Walk, "_answer", lambda *_: None)
    assert main(line) == 2
    assert "no verification was measured" in capsys.readouterr().err
    assert not out.exists()


def test_an_interruption_keeps_nothing(line, out, capsys, monkeypatch):
    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(component_times.Walk, "_position", interrupt)
    assert main(line) == 130
    assert "a profile that did not end keeps nothing" in capsys.readouterr().err
    assert not out.exists()
