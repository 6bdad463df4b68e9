"""The clocks' command on a pair of two layers, led by the host: parts, documents, endings."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from hybridspec.bench.scripted.check import ScriptError
from hybridspec.bench.scripted.clocks import main as module
from hybridspec.bench.scripted.clocks import startup
from hybridspec.bench.scripted.clocks.board import Board, planned
from hybridspec.bench.scripted.clocks.parts import ON_REQUEST, PARTS
from hybridspec.bench.scripted.clocks.rounds import Variant, compared
from hybridspec.bench.scripted.clocks.startup import cold, start_up
from hybridspec.bench.scripted.clocks.tables import TABLES, tables
from hybridspec.bench.scripted.clocks.verb import main, parser
from hybridspec.bench.small import MEANINGLESS
from hybridspec.errors import HybridSpecError

SMALL = ("--small", "--launchers", "host", "--launcher", "host", "--turns", "3")


@pytest.fixture(scope="module")
def board() -> Board:
    return Board.of(parser().parse_args([*SMALL]))


def test_variants_answer_in_turn_and_are_held_against_their_group_s_first(board, monkeypatch):
    asked = []
    say = Board.say
    monkeypatch.setattr(
        Board, "say", lambda self, a, name, *t: asked.append(name) or say(self, a, name, *t)
    )
    groups = [[Variant("host", "ar")], [Variant("host", n) for n in ("static:4", "static:2")]]
    rows = compared(board, groups)
    names = ["ar", "static:4", "static:2"]
    assert asked == names + names + [*names[1:], "ar"] + ["static:2", "ar", "static:4"]
    assert [r["system"] for r in rows] == names
    assert [r["ratio"] == {"median": 1, "low": 1, "high": 1} for r in rows] == [True, True, False]
    assert rows[0]["mean_w"] == 1
    assert rows[0]["rounds"] == 3 * board.plan.tokens
    assert 1 < rows[2]["mean_w"] <= 2 < rows[1]["mean_w"] <= 4
    assert all(0 < r["ms"]["low"] <= r["ms"]["median"] <= r["ms"]["high"] for r in rows)


def test_other_tokens_than_the_known_ones_end_it(board):
    answers = board.answers("host")
    anchor = answers.anchor
    answers.anchor = int(board.pair.cycle.known(anchor, 1)[0])
    try:
        board.say(answers, "ar")  # another anchor: another known text, which is followed
        answers.pair.target.head.neg_()
        with pytest.raises(ScriptError, match="ar did not emit"):
            board.say(answers, "ar")
    finally:
        answers.pair.target.head.neg_()
        answers.anchor = anchor


def test_a_system_that_reads_a_profile_has_one_of_this_launcher(board, monkeypatch):
    made = []
    monkeypatch.setattr(
        "hybridspec.bench.scripted.clocks.board.calibrate",
        lambda answers, *rest: made.append(answers) or pytest.skip("calibrated"),
    )
    board.system("static:3:block")
    assert made == []
    with pytest.raises(pytest.skip.Exception):
        board.system("hybridspec")
    assert made == [board.answers("host")]


def test_a_run_is_gone_on_with(tmp_path, capsys, monkeypatch):
    out = tmp_path / "clocks.json"
    command = [*SMALL, "--out", str(out), "--systems", "ar,static:2", "--turns", "1"]
    assert main([*command, "--parts", "launchers"]) == 0
    first = json.loads(out.read_text())
    assert [*first["parts"]] == ["launchers"]
    assert [r["system"] for r in first["parts"]["launchers"]["rows"]] == ["ar", "static:2"]
    said = capsys.readouterr().out
    assert "Launchers, x host" in said
    assert MEANINGLESS in said
    assert first["shape_is"] == "small"

    monkeypatch.setitem(PARTS, "gaps", "rounds.no_such_function")
    assert main([*command, "--parts", "launchers", "gaps", "verifiers", "--resume"]) == 1
    second = json.loads(out.read_text())
    assert second["parts"]["launchers"] == first["parts"]["launchers"]
    assert "no_such_function" in second["failed"]["gaps"]
    systems = [r["system"] for r in second["parts"]["verifiers"]["rows"]]
    assert systems == [f"static:4:{v}" for v in ("exact", "block", "per-token", "replay")]
    said = capsys.readouterr().out
    assert "gaps failed: AttributeError" in said
    assert "GDN verifiers, x exact" in said


def test_time_that_is_up_leaves_parts_out(tmp_path, capsys):
    out = tmp_path / "clocks.json"
    assert main([*SMALL, "--out", str(out), "--seconds", "0"]) == 1
    assert json.loads(out.read_text())["left_out"] == [n for n in PARTS if n not in ON_REQUEST]
    assert "--resume goes on" in capsys.readouterr().out


def test_what_is_of_another_run_is_refused(tmp_path, capsys):
    out = tmp_path / "clocks.json"
    command = [*SMALL, "--out", str(out), "--seconds", "0"]
    main(command)
    assert main([*command, "--resume", "--context", "9"]) == 2
    assert "has context 12 and this run 9" in capsys.readouterr().err
    out.write_text("[]")
    assert main([*command, "--resume"]) == 2
    assert "no document of the clocks" in capsys.readouterr().err
    assert main([*command]) == 1  # written over


def test_starting_is_told_by_system(board):
    found = start_up(board)
    assert [r["system"] for r in found["rows"]] == ["ar", "static:4"]
    assert all(r["first_s"] > 0 and r["figures"] is None for r in found["rows"])
    firsts = sum(r["first_s"] for r in found["rows"])
    took = found["took"]
    made = sum(took[name] for name in ("process", "host: executor", "host: prompt"))
    assert found["ready_s"] == pytest.approx(made + firsts, abs=0.01)
    assert "host: prompt" in tables({"startup": found})


def test_a_process_of_its_own_is_asked_for_the_same(board, monkeypatch):
    asked = []

    def run(command, environment):
        asked.append(command)
        out = Path(command[command.index("--out") + 1])
        part = {"cache": environment["TRITON_CACHE_DIR"]}
        out.write_text(json.dumps({"parts": {"startup": part}}))

    monkeypatch.setattr(startup, "_run", run)
    fresh = Board.of(board.given)
    found = cold(fresh)["startup"]
    given = parser().parse_args(asked[0][3:])
    assert given.parts == ["startup"]
    assert (given.launchers, given.launcher, given.small) == (("host",), "host", True)
    assert planned(given) == fresh.plan
    assert found["cache"].startswith(str(given.out.parent))
    assert board.pair
    with pytest.raises(HybridSpecError, match="does not fit beside"):
        cold(board)


def test_a_process_that_fails_is_told():
    with pytest.raises(HybridSpecError, match=r"ended with 3: \['no such card'\]"):
        startup._run([sys.executable, "-c", "print('no such card'); exit(3)"], dict(os.environ))


def test_launchers_are_known_ones(capsys):
    with pytest.raises(SystemExit):
        parser().parse_args(["--launchers", "loop,warp"])
    assert "'warp'" in capsys.readouterr().err


def test_every_part_is_there_and_has_a_table():
    assert all(callable(module.part(name)) for name in PARTS)
    assert {*TABLES} == {*PARTS}
    assert tables({}) == ""


def test_the_table_of_gaps_says_what_a_stamp_takes():
    row = {
        "launcher": "loop", "system": "ar", "gap_us": 4.0, "gap_us_95": 5.0, "gap_us_most": 30.0,
        "round_us": 2180.0, "share": 0.002, "idle": 0.002, "pieces": 1, "rounds": 9, "ms": 2.18,
        "ms_stamped": 2.19,
    }  # fmt: skip
    said = tables({"gaps": {"stamp_us": 1.4, "tick_ns": 32, "rows": [row]}})
    assert "ticks of 32 ns" in said
    assert "takes 1.40" in said
    assert "0.20%" in said
