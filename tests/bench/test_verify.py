"""`bench verify` on pairs on disk: what it finds, what it must find, resumption, bad input."""

from __future__ import annotations

import json

import pytest

from bench.conftest import PROMPTS
from hybridspec.bench import forms, measure, verification
from hybridspec.bench.verify import ANSWERS, main
from hybridspec.engine import Engine
from hybridspec.runtime import round as rounds

SYSTEMS = "static:3,dflash,replayssm"


@pytest.fixture
def arguments(tmp_path, out):
    """One prompt and short answers, for any pair."""
    prompts = tmp_path / "prompts.jsonl"
    prompts.write_text("\n".join(map(json.dumps, PROMPTS)))
    return [
        *("--prompts", str(prompts), "--split", "test", "--limit", "1", "--systems", SYSTEMS),
        *("--max-tokens", "8", "--device", "cpu", "--threads", "1", "--out", str(out)),
    ]


@pytest.fixture
def command(arguments, pair):
    return [*pair.options, *arguments]


@pytest.fixture
def flat_command(arguments, flat_pair):
    return [*flat_pair.options, *arguments]


def results(out):
    return json.loads((out / "verify.json").read_text())


@pytest.fixture
def broken(monkeypatch):
    """A runtime that takes one draft too many wherever there is one."""
    accept = rounds.accept

    def greedier(proposal, y):
        return (accept(proposal, y) + 1).clamp(max=len(proposal))

    monkeypatch.setattr(rounds, "accept", greedier)


@pytest.mark.parametrize("which", ["command", "flat_command"])
def test_systems_that_agree(request, which, out, capsys):
    assert main(request.getfixturevalue(which)) == 0
    said = capsys.readouterr().out
    last = json.loads(said.splitlines()[-1])
    sweeps = [f"sweep:{v}" for v in ("exact", "block", "per-token", "replay")]
    assert last["systems"] == [*SYSTEMS.split(","), *sweeps]
    # seven systems, and two more forms of the four sweeps; each drawn two ways
    assert last["compared"] == last["equal"] == (7 + 2 * 4) * 2
    assert last["lossless"]
    assert "Lossless: 30 of 30 comparisons are equal" in said
    assert "seconds" not in (out / "verify.json").read_text()


def test_the_sweeps_cut_rounds_and_accept_drafts(flat_command, out, capsys):
    """Where every draft is right, the forms are compared on rounds of many lengths."""
    assert main(flat_command) == 0
    kept = [json.loads(line) for line in (out / ANSWERS).read_text().splitlines()[1:]]
    lengths = {
        form: [r for row in kept if row["system"] == "sweep:exact" and row["form"] == form
               for r in row["rounds"]]
        for form in ("split", "unsplit", "overwritten")
    }  # fmt: skip
    assert lengths["split"] == lengths["unsplit"] == lengths["overwritten"]
    greedy = lengths["split"][:2]
    assert greedy[0][:2] == [1, 0]  # one of 7 inputs that Stage 0 ran
    assert greedy[1][1] == greedy[1][0] - 1 == 5


def test_a_draft_too_many_is_found(command, out, capsys, broken):
    """The control: with a runtime that is not lossless the verb says so, and where."""
    assert main([*command, "--no-forms", "--limit", "2"]) == 1
    said = capsys.readouterr().out
    assert "NOT LOSSLESS" in said
    assert "DIFFERENT: a, " in said
    found = results(out)
    assert not found["lossless"]
    for name in ("static:3", "dflash", "replayssm"):
        for outcome in found["systems"][name]:
            assert outcome["equal"] + outcome["near_ties"] + outcome["different"] == 2
        greedy = found["systems"][name][0]
        assert greedy["different"] == 2
        assert greedy["share"] == 0
        # after the prefill's token and the first round's own comes what follows a wrong draft
        assert greedy["positions"] == [2, 2]
        assert greedy["largest_regret"] == max(d["regret"] for d in greedy["differences"]) > 0.02
        assert greedy["largest_turn"] == greedy["largest_regret"] / 2
    last = json.loads(said.splitlines()[-1])
    assert last["different"] > 0
    assert not last["lossless"]


def test_a_difference_within_the_bound_is_a_near_tie(command, out, capsys, broken):
    """The same differences, with a bound that allows them: said, and no failure."""
    assert main([*command, "--near-tie", "1e9", "--no-forms", "--temperature", "0"]) == 0
    said = capsys.readouterr().out
    assert "Lossless up to near ties" in said
    assert "near tie: a, static:3, greedy: token 2 is" in said
    assert results(out)["systems"]["static:3"][0]["near_ties"] == 1


def test_rounds_that_read_past_w_are_found(flat_command, out, capsys, monkeypatch):
    """A control of the forms: Stage 1 takes one input more than it was told to, if there is one."""
    from hybridspec.model.target import Target

    stage1 = Target.stage1

    def longer(self, stage0, w, slot, verifier):
        out = stage1(self, stage0, min(w + 1, len(stage0.experts)), slot, verifier)
        return out._replace(logits=out.logits.mean(0, keepdim=True).expand(w, -1))

    monkeypatch.setattr(Target, "stage1", longer)
    # not-a-number in the logits cannot be decoded: the check ends with a sentence about it
    assert main(flat_command) == 2
    assert "sweep:" in capsys.readouterr().err


def test_other_rounds_in_another_form_are_found(flat_command, out, capsys, monkeypatch):
    """The same tokens from other lengths are no equal forms."""
    seen, running = [], forms.running

    def hasty(self, choice, experts):
        return self.longest if seen[-1] == "unsplit" else 1

    def watched(engine, form):
        seen.append(form)
        return running(engine, form)

    monkeypatch.setattr(verification, "running", watched)
    monkeypatch.setattr(forms.Sweep, "correct", hasty)
    assert main([*flat_command, "--temperature", "0"]) == 1
    found = results(out)
    unsplit, overwritten = found["forms"]["sweep:exact"]
    assert (unsplit["form"], unsplit["other_rounds"], unsplit["equal"]) == ("unsplit", 1, 1)
    assert (overwritten["form"], overwritten["other_rounds"]) == ("overwritten", 0)


def interrupt_after(monkeypatch, answers):
    real, done = verification.Check._decode, []

    def interrupted(*arguments):
        if len(done) == answers:
            raise KeyboardInterrupt
        done.append(arguments)
        real(*arguments)

    monkeypatch.setattr(verification.Check, "_decode", interrupted)


def test_an_interrupted_check_goes_on_where_it_stopped(command, out, capsys, monkeypatch):
    with monkeypatch.context() as patch:
        interrupt_after(patch, 5)
        assert main(command) == 130
    assert "Interrupted after 5 of 32 answers" in capsys.readouterr().err
    assert not (out / "verify.json").exists()
    before = (out / ANSWERS).read_bytes()
    (out / ANSWERS).write_bytes(before + b'{"temperature": "0", "sys')  # a kill while writing
    assert main(command) == 0
    assert (out / ANSWERS).read_bytes().startswith(before)
    monkeypatch.setattr(verification.Check, "_decode", None)  # nothing is decoded again
    assert main(command) == 0
    assert len((out / ANSWERS).read_text().splitlines()) == 1 + 32


def test_other_systems_and_temperatures_are_added(command, out, capsys):
    assert main([*command, "--systems", "static:3", "--temperature", "0", "--no-forms"]) == 0
    assert len((out / ANSWERS).read_text().splitlines()) == 1 + 2
    assert main([*command, "--systems", "dflash", "--temperature", "0", "--no-forms"]) == 0
    assert len((out / ANSWERS).read_text().splitlines()) == 1 + 3
    assert list(results(out)["systems"]) == ["dflash"]


def test_all_that_a_pair_serves_without_a_profile(flat_command, capsys):
    at = flat_command.index("--systems")
    everything = flat_command[:at] + flat_command[at + 2 :]
    assert main([*everything, "--max-tokens", "3", "--limit", "1", "--no-forms"]) == 0
    said = capsys.readouterr().out
    assert "Not served by this pair and its profile, so not checked: static, dcut" in said
    assert json.loads(said.splitlines()[-1])["systems"] == [
        *("static:2", "static:4", "static:8", "static:16", "length16", "dflash", "replayssm"),
        *("static:4:block", "static:16:block", "static:4:replay", "ema", "cascade"),
    ]


def test_prompts_that_do_not_fit_are_counted(command, tmp_path, out, capsys, monkeypatch):
    def short(options):
        return Engine.load(options.model, options.draft, device="cpu", max_context=100)

    monkeypatch.setattr(measure, "load", short)
    long = {"id": "long", "category": "math", "turns": ["1" * 100], "split": "test"}
    prompts = tmp_path / "prompts.jsonl"
    prompts.write_text("\n".join(map(json.dumps, [*PROMPTS, long])))
    assert main([*command, "--no-forms", "--limit", "3"]) == 0
    assert "Left out, too long for the context: long." in capsys.readouterr().out
    assert results(out)["prompts"] == 2
    prompts.write_text(json.dumps(long))
    assert main([*command, "--out", str(out) + "2"]) == 2
    assert "All 1 prompts are too long: the shortest has 1" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (["--systems", "ar"], "plain decoding alone"),
        (["--systems", "auto"], "needs a calibration profile"),
        (["--temperature", "x"], "expected numbers from 0"),
        (["--temperature", "0,0"], "one twice"),
        (["--temperature", "-1"], "expected 0 to 100"),
        (["--temperature", "nan"], "expected 0 to 100"),
        (["--near-tie", "-1"], "expected a number from 0"),
        (["--max-tokens", "1"], "expected at least 2"),
        (["--raw", "--thinking"], "for chat prompts"),
        (["--prompts", "/nowhere"], "cannot be read"),
    ],
)
def test_what_cannot_be_used_is_said(command, out, capsys, more, words):
    assert main([*command, *more]) == 2
    said = capsys.readouterr().err
    assert said.startswith("Error: ")
    assert words in said
    assert not (out / "verify.json").exists()


def test_a_pair_without_a_drafter_has_nothing_to_compare(arguments, pair, capsys):
    assert main(["--model", str(pair.target), *arguments]) == 2
    assert "has no drafter" in capsys.readouterr().err


def test_answers_of_another_setup_are_refused(command, out, capsys):
    assert main([*command, "--no-forms"]) == 0
    assert main([*command, "--seed", "2"]) == 2
    assert "holds answers of another set-up: seed 0 there, 2 here" in capsys.readouterr().err
    assert main([*command, "--seed", "2", "--force", "--no-forms"]) == 0


def test_a_damaged_line_is_named(command, out, capsys):
    assert main([*command, "--no-forms"]) == 0
    lines = (out / ANSWERS).read_text().splitlines()
    lines[2] = lines[2].replace("split", "halved")
    (out / ANSWERS).write_text("\n".join(lines) + "\n")
    assert main(command) == 2
    assert "line 3, is damaged" in capsys.readouterr().err
