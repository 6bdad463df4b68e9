"""A run beside SGLang, as processes: both of them made up, but for the one in the full suite."""

from __future__ import annotations

import json
import sys

import pytest

from bench.scripted_documents import document
from bench.scripted_site import made_up_site
from hybridspec.bench.scripted import beside
from hybridspec.bench.scripted.beside import flags
from hybridspec.bench.scripted.verb import main, parser

OURS = """\
import json, os, sys
from hybridspec.bench.scripted.verb import parser
given = parser(None).parse_args(sys.argv[1:])
with open(os.environ["ASKED"], "a") as file:
    file.write(json.dumps([given.systems, given.categories, given.launcher]) + "\\n")
if given.seed == 13:
    print("Error: the seed is unlucky.")
    sys.exit(2)
given.out.write_text(os.environ["DOCUMENT"])
"""


@pytest.fixture
def call(tmp_path, monkeypatch):
    """The command with made-up runs of ours and of SGLang's; its code, and what ours were asked."""
    site, peers = made_up_site(tmp_path)
    script, asked = tmp_path / "ours.py", tmp_path / "asked"
    script.write_text(OURS)
    monkeypatch.setattr(beside, "OURS", (sys.executable, str(script)))
    monkeypatch.setenv("ASKED", str(asked))
    monkeypatch.setenv("DOCUMENT", json.dumps(document()))

    def run(*arguments: str) -> tuple[int, list[list[object]]]:
        asked.write_text("")
        code = main([
            "--sglang", str(site), "--peers", str(peers), "--out", str(tmp_path / "out"),
            "--categories", "coding,math,rag", "--small", *arguments,
        ])  # fmt: skip
        return code, [json.loads(line) for line in asked.read_text().splitlines()]

    return run


def made(tmp_path):
    return json.loads((tmp_path / "out" / "scripted.json").read_text())


def test_ours_sglang_ours_make_one_document(call, tmp_path, capsys):
    code, asked = call("--systems", "ar,dflash,length16", "--sglang-count", "--launcher", "loop")
    assert code == 0
    assert asked == [
        [["ar", "dflash", "length16"], ["coding", "math", "rag"], "loop"],
        [["ar", "dflash"], ["coding", "math"], "loop"],
    ]
    found = made(tmp_path)
    assert [*found["steps"]] == [
        "ours", "sglang-ar", "sglang-dflash16", "sglang-dflash16-experts", "ours-again",
    ]  # fmt: skip
    modes = found["sglang"]["modes"]
    assert modes["ar"]["ms_per_round"] == 5.2
    assert modes["dflash16"]["ms_per_round"] == 11.2
    assert (modes["dflash16"]["startup_s"], modes["dflash16"]["distinct"]) == (61.5, 50.0)
    assert found["against"]["modes"]["dflash16"]["distinct"]["equal"] is True
    assert found["against"]["drift"]["ar"]["ms_per_round"] == 1
    assert "SGLang dflash16: 11.200 ms a round" in capsys.readouterr().out


def test_a_mode_that_fails_is_told_and_loses_nothing(call, tmp_path, capsys):
    code, asked = call("--sglang-modes", "dflash8,ar", "--routing", "uniform")
    assert code == 1
    assert len(asked) == 2
    found = made(tmp_path)
    assert found["sglang"]["modes"]["ar"]["ms_per_round"] == 4.2  # no skew
    assert "dflash8" not in found["sglang"]["modes"]
    assert "RuntimeError: out of memory" in found["failed"]["sglang-dflash8"]
    assert "FAILED: sglang-dflash8 ended with code 1" in capsys.readouterr().out


def test_finished_steps_are_resumed(call, tmp_path):
    assert call("--sglang-modes", "ar,dflash8")[0] == 1
    code, asked = call("--sglang-modes", "ar", "--resume")
    assert (code, asked) == (0, [])
    assert [*made(tmp_path)["steps"]] == ["ours", "sglang-ar", "ours-again"]
    assert len(call("--sglang-modes", "ar", "--resume", "--launcher", "loop")[1]) == 2


def test_without_our_first_run_nothing_is_compared(call, tmp_path, capsys):
    code, asked = call("--seed", "13")
    assert (code, len(asked)) == (2, 1)
    assert "the seed is unlucky" in capsys.readouterr().err
    assert not (tmp_path / "out" / "scripted.json").exists()


def test_what_cannot_run_is_refused_before_anything_does(call, tmp_path, capsys):
    assert call("--sglang-modes", "dflash5") == (2, [])
    assert "dflash5" in capsys.readouterr().err
    assert main(["--small", "--sglang", str(tmp_path / "site")]) == 2
    assert "needs the folder of bench_sglang.py" in capsys.readouterr().err
    both = ["--small", "--sglang", str(tmp_path / "site"), "--peers", str(tmp_path / "peers")]
    assert main([*both, "--resume"]) == 2
    assert "needs --out" in capsys.readouterr().err


def test_options_survive_the_way_into_a_process():
    asked = ["--systems", "static:4:block,hybridspec", "--small", "--tokens", "7", "--pair",
             "qwen3.5", "--seed", "-3"]  # fmt: skip
    given = parser(None).parse_args(asked)
    again = parser(None).parse_args(flags(vars(given)))
    assert vars(again) == vars(given)


@pytest.mark.full  # two real runs of a small shape, a minute each
def test_a_real_run_stands_beside(tmp_path):
    site, peers = made_up_site(tmp_path)
    code = main([
        "--small", "--systems", "dflash", "--categories", "coding", "--calibration-tokens", "6",
        "--sglang", str(site), "--peers", str(peers), "--out", str(tmp_path / "out"),
    ])  # fmt: skip
    assert code == 0
    found = made(tmp_path)
    assert found["sglang"]["modes"]["ar"]["ms_per_round"] == 5.2
    assert [*found["again"]["systems"]] == ["ar", "dflash"]
