"""`bench quality` on pairs on disk: counts, seeds, code only when asked for, resumption."""

from __future__ import annotations

import json
import os

import pytest

from hybridspec.bench import exam
from hybridspec.bench.exam import seed_of
from hybridspec.bench.quality import ANSWERS, main

CHECK = "def check(candidate):\n    assert candidate(1) == 2\n"
ROWS = [
    {"id": "n", "category": "math", "turns": ["9 * 2"], "answer": "18"},
    {"id": "x", "category": "rag", "turns": ["What?"], "answer": "exclamation"},
    {"id": "c", "category": "coding", "turns": ["def f(x):\n"], "test": CHECK, "entry_point": "f"},
    {"id": "none", "category": "math", "turns": ["Talk."]},
]


@pytest.fixture
def command(pair, tmp_path, out):
    prompts = tmp_path / "tasks.jsonl"
    prompts.write_text("\n".join(map(json.dumps, ROWS)))
    return [
        *(*pair.options, "--prompts", str(prompts), "--system", "static:3"),
        *("--max-tokens", "6", "--device", "cpu", "--threads", "1", "--out", str(out)),
    ]


def results(out):
    return json.loads((out / "quality.json").read_text())


def replies(monkeypatch, texts):
    """Let the engine say these, by role and prompt, instead of what it says."""
    kept = exam._parse

    def scripted(row):
        step, reply = kept(row)
        text = texts.get((step.role, step.prompt), reply.text)
        return step, exam.Reply(reply.token_ids, text, reply.finish_reason)

    monkeypatch.setattr(exam, "_parse", scripted)


def test_questions_are_asked_and_counted(command, out, capsys):
    assert main(command) == 1  # two questions show nothing
    said = capsys.readouterr().out
    assert "2 questions (1 number, 1 text); rows left out: 1 (no answer), 1 (code with" in said
    assert "ar: 0 of 2 right (0.00%); 2 answers were cut off" in said
    assert "The same tokens from both: 2 of 2 answers." in said
    assert "NOT SHOWN" in said
    assert "that takes 268 questions or more" in said
    last = json.loads(said.splitlines()[-1])
    assert last["paired"] == {"both": 0, "neither": 2, "only_baseline": 0, "only_system": 0}
    assert last["skipped"] == {
        **{"no answer": 1, "code without --run-code": 1, "beyond --limit": 0},
        "too long for the context": 0,
    }
    assert results(out)["same_tokens"] == 2


def test_right_answers_fall_into_the_four_cells(command, out, capsys, monkeypatch):
    code = "    return x + 1\n"
    replies(
        monkeypatch,
        {
            ("baseline", "n"): "It is 18.", ("system", "n"): "#### 18.0",
            ("baseline", "x"): "an exclamation", ("system", "x"): "a mark",
            ("baseline", "c"): "    return x\n", ("system", "c"): code,
        },
    )  # fmt: skip
    assert main([*command, "--run-code"]) == 1
    last = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert last["paired"] == {"both": 1, "neither": 0, "only_baseline": 1, "only_system": 1}
    assert last["right"] == {"baseline": 2, "system": 2}
    assert last["difference"] == 0
    assert last["bound"] == pytest.approx(-1.6449 * 2**0.5 / 3, rel=1e-4)  # z to five digits
    marks = {row["prompt"]: row for row in results(out)["answers"]}
    assert marks["c"]["baseline"]["said"] == "failed"
    assert marks["c"]["system"]["said"] == "passed"
    assert marks["x"]["baseline"]["said"] == "exclamation"
    assert results(out)["by_category"]["coding"]["only_system"] == 1


def test_a_margin_wide_enough_is_shown(command, capsys):
    """Two questions without a disagreement: the score bound is -z^2 / (2 + z^2) = -57.5 points."""
    assert main([*command, "--margin", "58"]) == 0
    assert "NOT INFERIOR: both bounds lie above the margin of -58" in capsys.readouterr().out
    assert main([*command, "--margin", "57"]) == 1


def test_no_code_runs_unless_asked(command, capsys, monkeypatch):
    monkeypatch.setattr(exam, "run_program", None)
    monkeypatch.setattr(exam, "check_runs", None)
    assert main(command) == 1
    with pytest.raises(TypeError):
        main([*command, "--run-code"])


def test_code_alone_without_the_flag_is_refused(command, capsys):
    assert main([*command, "--categories", "coding"]) == 2
    assert "are code, which runs only with --run-code" in capsys.readouterr().err


def test_prompts_without_answers_are_refused(command, tmp_path, capsys):
    (tmp_path / "tasks.jsonl").write_text(json.dumps(ROWS[3]))
    assert main(command) == 2
    assert "None of the 1 rows of" in capsys.readouterr().err


def test_sampled_answers_have_seeds_of_their_own(command, out, capsys):
    assert main([*command, "--temperature", "1"]) == 1
    kept = [json.loads(line) for line in (out / ANSWERS).read_text().splitlines()[1:]]
    assert len({tuple(row["token_ids"]) for row in kept}) == 4  # 2 questions, 2 systems
    assert results(out)["same_tokens"] == 0
    seeds = {seed_of(s, r, p) for s in (0, 1) for r in ("baseline", "system") for p in "nx"}
    assert len(seeds) == 8
    assert all(0 <= seed < 2**63 for seed in seeds)
    assert seed_of(0, "system", "n") == seed_of(0, "system", "n")


def test_a_limit_is_of_questions(command, out, capsys):
    assert main([*command, "--limit", "1"]) == 1
    assert results(out)["questions"] == 1
    assert results(out)["skipped"]["beyond --limit"] == 1


def test_an_interrupted_exam_goes_on_where_it_stopped(command, out, capsys, monkeypatch):
    real, done = exam.Exam._ask, []

    def interrupted(*arguments):
        if len(done) == 3:
            raise KeyboardInterrupt
        done.append(arguments)
        real(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(exam.Exam, "_ask", interrupted)
        assert main(command) == 130
    assert "Interrupted after 3 of 4 answers" in capsys.readouterr().err
    before = (out / ANSWERS).read_text()
    assert main(command) == 1
    after = (out / ANSWERS).read_text()
    assert after.startswith(before)
    assert len(after.splitlines()) == 1 + 4
    assert main([*command, "--run-code"]) == 1  # adds to it
    assert len((out / ANSWERS).read_text().splitlines()) == 1 + 6


def test_a_question_that_was_changed_is_asked_again(command, tmp_path, out, capsys):
    assert main(command) == 1
    changed = [{**row, "turns": ["Else?"]} if row["id"] == "n" else row for row in ROWS]
    (tmp_path / "tasks.jsonl").write_text("\n".join(map(json.dumps, changed)))
    assert main(command) == 1
    assert len((out / ANSWERS).read_text().splitlines()) == 1 + 4 + 2


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (["--margin", "0"], "0.001 or more and below 100"),
        (["--margin", "nan"], "0.001 or more and below 100"),
        (["--margin", "100"], "0.001 or more and below 100"),
        (["--margin", "1e-310"], "0.001 or more and below 100"),
        (["--temperature", "-1"], "expected 0 to 100"),
        (["--code-seconds", "0"], "expected 1 to 3600"),
        (["--code-memory", "1"], "expected 64 to"),
        (["--system", "hybridspec"], "needs a calibration profile"),
        (["--baseline", "nonsense"], "is unknown"),
        (["--prompts", "/nowhere"], "cannot be read"),
        (["--prompts", "/" + "a" * 300], "cannot be read"),
    ],
)
def test_what_cannot_be_used_is_said(command, capsys, more, words):
    assert main([*command, *more]) == 2
    said = capsys.readouterr().err
    assert said.startswith("Error: ")
    assert words in said


def test_a_pipe_of_prompts_is_refused(command, tmp_path, capsys):
    """It could be read once only. Nothing writes to it: to open it would be to wait for ever."""
    pipe = tmp_path / "pipe.jsonl"
    os.mkfifo(pipe)
    assert main([*command, "--prompts", str(pipe)]) == 2
    assert "is a pipe or a device, and is read twice" in capsys.readouterr().err


def test_the_least_margin_can_be_asked_for(command, out, capsys):
    assert main([*command, "--margin", "0.001"]) == 1
    assert results(out)["least_questions"] == 270_552


def test_the_help_says_what_run_code_is_not(capsys):
    with pytest.raises(SystemExit):
        main(["--help"])
    said = capsys.readouterr().out
    assert "THIS IS NO SANDBOX" in said
    assert "--run-code" in said
