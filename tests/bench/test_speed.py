"""The whole bench on pairs on disk: report, resumption, the check of equality, bad input."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time

import pytest

from hybridspec.bench import equality, measure
from hybridspec.bench.files import LOCK, locked
from hybridspec.bench.journal import RECORDS
from hybridspec.bench.speed import main


def records(out):
    rows = [json.loads(line) for line in (out / RECORDS).read_text().splitlines()]
    return [row for row in rows if row["kind"] == "record"]


def test_a_bench_reports_and_keeps_its_figures(command, out, capsys):
    assert main(command) == 0
    said = capsys.readouterr()
    results = json.loads((out / "speed.json").read_text())
    assert results["complete"]
    assert results["prompts"] == {"math": 1, "rag": 1}
    dflash = results["systems"]["dflash"]
    assert dflash["rounds"] == 2  # one of w = 5 for each prompt: all drafts are accepted
    assert dflash["acceptance_histogram"][4] == 2
    assert dflash["mean_acceptance_length"] == dflash["mean_verification_length"] == 5
    assert dflash["tokens"] == 12
    last = json.loads(said.out.splitlines()[-1])
    assert last["results"] == str(out / "speed.json")
    assert last["equal"]
    assert last["mean_acceptance_length"] == {"ar": 1.0, "static:3": 2.5, "dflash": 5.0}
    assert "All 4 other answers equal those of ar" in said.out
    assert f"Every generation: {out / RECORDS};" in said.out
    assert "[1/14] warm-up ar" in said.err
    assert {path.name for path in out.iterdir()} == {"speed.json", "speed.md", RECORDS}


def interrupt_after(monkeypatch, generations):
    real, done = measure.measure, []

    def interrupted(*arguments):
        if len(done) == generations:
            raise KeyboardInterrupt
        done.append(arguments)
        return real(*arguments)

    monkeypatch.setattr(measure, "measure", interrupted)


def test_an_interrupted_bench_goes_on_where_it_stopped(command, out, capsys, monkeypatch):
    with monkeypatch.context() as patch:
        interrupt_after(patch, 4)
        assert main(command) == 130
    assert "Interrupted after 4 of 6 generations" in capsys.readouterr().err
    assert not (out / "speed.json").exists()
    before = records(out)
    assert len(before) == 4
    assert main(command) == 0
    after = records(out)
    assert after[:4] == before
    keys = [(r["repeat"], r["prompt"], r["system"]) for r in after]
    assert len(keys) == len(set(keys)) == 6
    results = json.loads((out / "speed.json").read_text())
    assert len(results["runs"]) == 2
    assert results["complete"]


def test_a_finished_bench_measures_nothing_again(command, out, capsys, monkeypatch):
    assert main(command) == 0
    first = (out / "speed.json").read_text()
    monkeypatch.setattr(measure, "load", lambda plan: pytest.fail("loaded again"))
    assert main(command) == 0
    assert (out / "speed.json").read_text() == first


def test_more_repeats_add_to_those_done(command, out, capsys):
    assert main(command) == 0
    before = records(out)
    assert main([*command, "--repeats", "2"]) == 0
    assert records(out)[:6] == before
    assert len(records(out)) == 12
    results = json.loads((out / "speed.json").read_text())
    assert len(results["systems"]["ar"]["tokens_per_second"]["repeats"]) == 2


def test_force_starts_over(command, out, capsys):
    assert main(command) == 0
    first = records(out)
    assert main([*command, "--force"]) == 0
    assert len(records(out)) == 6
    assert records(out) != first  # other times


def plant(out, system, prompt, token):
    """Change one token of one answer in the journal."""
    rows = [json.loads(line) for line in (out / RECORDS).read_text().splitlines()]
    for row in rows:
        if row.get("system") == system and row.get("prompt") == prompt:
            row["token_ids"][3] = token
    (out / RECORDS).write_text("".join(json.dumps(row) + "\n" for row in rows))


def test_a_different_token_is_found_and_measured(command, out, capsys):
    assert main(command) == 0
    capsys.readouterr()
    plant(out, "static:3", "b", 99)
    assert main(command) == 1
    said = capsys.readouterr().out
    assert "DIFFERENT TOKENS: 1 of 4 other answers" in said
    assert json.loads(said.splitlines()[-1])["equal"] is False
    (found,) = json.loads((out / "speed.json").read_text())["equality"]["differences"]
    assert found == {
        **{"prompt": "b", "system": "static:3", "repeat": 0, "position": 3},
        **{"expected": 0, "found": 99, "gap": 0.0, "regret": 0.0},  # the flat pair: all tie
    }


def test_the_gap_is_that_of_plain_decoding_at_the_difference(command, pair, out, capsys):
    command = [*command, *pair.options]  # the last ones count
    assert main(command) == 0
    plant(out, "dflash", "a", 99)
    assert main(command) == 1
    (found,) = json.loads((out / "speed.json").read_text())["equality"]["differences"]
    engine = measure.Engine.load(str(pair.target), str(pair.draft), device="cpu")
    prompt = engine.encode("1 + 1", chat=True)
    answer = next(r["token_ids"] for r in records(out) if r["system"] == "ar")
    row = equality.plain_logits(engine.target, prompt, answer[:3]).double()
    first, second = row.topk(2).values.tolist()
    assert found["gap"] == pytest.approx(first - second) != 0
    assert found["regret"] == pytest.approx(first - float(row[99])) != 0


def test_another_setup_in_the_same_folder_is_refused(command, out, capsys):
    assert main(command) == 0
    assert main([*command, "--max-tokens", "7"]) == 2
    assert "Error: " in capsys.readouterr().err
    assert len(records(out)) == 6


def test_a_refused_run_does_not_stand_in_the_way(command, out, capsys):
    assert main([*command, "--device", "toaster"]) == 2
    assert main(command) == 0
    assert len(records(out)) == 6


def test_a_system_alone_is_compared_with_nothing(command, out, capsys):
    assert main([*command, "--systems", "ar"]) == 0
    said = capsys.readouterr().out
    assert "Nothing was compared" in said
    last = json.loads(said.splitlines()[-1])
    assert last["equal"] is last["fastest"] is None


def test_a_folder_in_use_is_refused_and_left_alone(command, out, capsys):
    with locked(out):
        assert main([*command, "--force"]) == 2
        assert list(out.iterdir()) == [out / LOCK]
    assert "is in use by another bench" in capsys.readouterr().err


def test_plots_and_startup_are_part_of_the_bench(command, out, capsys, monkeypatch):
    asked = []

    def start(options):
        asked.append(options.model)
        return {"first_seconds": 3.0, "warm_seconds": 2.0, "peak_memory_mib": 500.0}

    monkeypatch.setattr("hybridspec.bench.speed.measure_startup", start)
    assert main([*command, "--startup"]) == 0
    assert main([*command, "--startup", "--plot"]) == 0
    assert len(asked) == 1  # kept like everything else
    said = capsys.readouterr().out
    assert "Process start to first token: 3.00 s" in said
    assert f"Drew {out / 'speedup.png'}" in said
    assert json.loads(said.splitlines()[-1])["startup"]["warm_seconds"] == 2.0


def test_ctrl_c_and_a_kill_keep_what_is_done(command, out):
    arguments = [sys.executable, "-m", "hybridspec.bench.speed", *command, "--repeats", "400"]
    process = subprocess.Popen(arguments, stderr=subprocess.PIPE, text=True)
    wait_for_records(out, 3, process)
    process.send_signal(signal.SIGINT)
    said = process.communicate(timeout=60)[1]
    assert process.returncode == 130, said
    assert "The same command goes on from there." in said
    assert "Traceback" not in said
    done = len(records(out))
    process = subprocess.Popen(arguments, stderr=subprocess.DEVNULL)
    wait_for_records(out, done + 3, process)
    process.kill()
    process.wait(timeout=60)
    assert len(whole_lines(out)) - 3 >= done + 3  # a set-up and two runs beside the records


def whole_lines(out):
    return (out / RECORDS).read_bytes().split(b"\n")[:-1]


def wait_for_records(out, count, process):
    """Until the journal holds so many, or the process has ended before, which fails the test."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and process.poll() is None:
        path = out / RECORDS
        if path.exists() and path.read_bytes().count(b'\n{"kind": "record"') >= count:
            return
        time.sleep(0.02)
    process.kill()
    pytest.fail(f"no {count} records; exit code {process.poll()}")


def test_typer_and_pydantic_are_not_needed(command):
    code = (
        "import sys\n"
        "absent = ('typer', 'pydantic', 'click', 'rich', 'matplotlib')\n"
        "sys.modules.update(dict.fromkeys(absent))\n"
        "from hybridspec.bench.speed import main\n"
        "sys.exit(main(sys.argv[1:]))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *command], capture_output=True, text=True, env=dict(os.environ)
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1])["equal"]
