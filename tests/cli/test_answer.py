"""Ctrl-C, for real where a process is the point, else raised at a chosen moment in this one."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys

import pytest

from disk_pair import CYCLE
from hybridspec.runtime.round import Rounds

# As started from a terminal, however the tests were started.
START = (
    "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); "
    "from hybridspec.cli.main import main; main()"
)
LONG = ("generate", "x", "--raw", "-n", "30000", "--system", "ar")
ENDLESS = ("yzé " + CYCLE * 2000).encode()


def start(*arguments: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-c", START, *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )


def test_ctrl_c_in_the_stream(pair):
    process = start(*LONG, *pair("cycle").options)
    first = os.read(process.stdout.fileno(), 1)
    assert process.poll() is None  # the text comes while the answer is being decoded
    process.send_signal(signal.SIGINT)
    rest, said = process.communicate(timeout=60)
    text = (first + rest).removesuffix(b"\n")
    assert process.returncode == 130
    assert ENDLESS.startswith(text.removesuffix("\ufffd".encode()))
    facts = re.fullmatch(rb"(\d+) tokens, .* system ar, finish reason abort\n", said)
    assert facts, said
    assert int(facts[1]) == len(text.replace("\ufffd".encode(), b"?"))  # a token a byte


def test_nobody_reads_on(pair):
    process = start(*LONG, *pair("cycle").options)
    assert os.read(process.stdout.fileno(), 1) == b"y"
    process.stdout.close()
    assert process.wait(timeout=60) == 141
    assert process.stderr.read() == b""
    process.stderr.close()


def interrupt_in_round(monkeypatch, number: int, times: int = 1) -> None:
    """Ctrl-C comes `times` times at the end of the given round, counted from 1."""
    run = Rounds.run
    rounds = 0

    def spy(*arguments):
        nonlocal rounds
        done = run(*arguments)
        rounds += 1
        if rounds == number:
            for _ in range(times):
                signal.raise_signal(signal.SIGINT)
        return done

    monkeypatch.setattr(Rounds, "run", spy)


@pytest.mark.usefixtures("_ctrl_c")
@pytest.mark.parametrize("number", [1, 2, 3, 8])
@pytest.mark.parametrize("stop", ["yzé a!", "!!!!!!!!!", "never"])
def test_the_round_under_way_and_the_text_held_back_are_kept(
    command, pair, monkeypatch, number, stop
):
    interrupt_in_round(monkeypatch, number)
    flags = ("--raw", "--system", "ar", "--stop", stop, *pair("cycle").options)
    got = command("generate", "x", *flags, "--json")
    assert got.code == 130
    facts = json.loads(got.out)
    assert facts["finish_reason"] == "abort"
    assert len(facts["token_ids"]) == number + 1  # the prompt's pass gives the first
    assert facts["text"].encode() == cut(number + 1)
    assert f"{number + 1} tokens" in got.err
    assert "finish reason abort" in got.err


def cut(tokens: int) -> bytes:
    """So many bytes of the endless text; half a character at its end is U+FFFD."""
    return ENDLESS[:tokens].decode(errors="replace").encode()


@pytest.mark.usefixtures("_ctrl_c")
def test_printed_text_is_that_of_the_document(command, pair, monkeypatch):
    """Two tokens of é are one character: the end of what was printed is the held half."""
    interrupt_in_round(monkeypatch, 2)
    got = command("generate", "x", "--raw", "--system", "ar", *pair("cycle").options)
    assert (got.code, got.out) == (130, "yz\ufffd\n")


@pytest.mark.usefixtures("_ctrl_c")
def test_a_second_ctrl_c_does_not_wait_for_the_round(command, pair, monkeypatch):
    interrupt_in_round(monkeypatch, 5, times=2)
    flags = ("--raw", "--system", "ar", *pair("cycle").options)
    got = command("generate", "x", *flags, "--json")
    assert got.code == 130
    facts = json.loads(got.out)
    assert (facts["text"], len(facts["token_ids"])) == ("yzé ", 5)  # y, and four whole rounds
    assert facts["stats"]["rounds"] == 4


@pytest.mark.usefixtures("_ctrl_c")
def test_ctrl_c_in_the_prompt_ends_at_once(command, pair, monkeypatch):
    monkeypatch.setattr(Rounds, "prefill", lambda *_: signal.raise_signal(signal.SIGINT))
    got = command("generate", "x", "--json", *pair("cycle").options)
    assert got.code == 130
    facts = json.loads(got.out)
    assert (facts["text"], facts["token_ids"], facts["finish_reason"]) == ("", [], "abort")


@pytest.mark.usefixtures("_ctrl_c")
def test_ctrl_c_while_loading_is_quiet(command, monkeypatch):
    monkeypatch.setattr(
        "hybridspec.cli.generate.load_engine", lambda *_, **__: signal.raise_signal(signal.SIGINT)
    )
    got = command("generate", "x")
    assert (got.code, got.out, got.err) == (130, "", "")


@pytest.mark.usefixtures("_ctrl_c")
def test_ctrl_c_means_what_it_did_once_the_answer_is_there(command, pair):
    command("generate", "x", "-n", "1", *pair("cycle").options)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_ctrl_c_that_is_ignored_stays_ignored(command, pair, monkeypatch):
    """As in a shell's background job."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        interrupt_in_round(monkeypatch, 1)
        assert command("generate", "x", "-n", "4", *pair("cycle").options).code == 0
    finally:
        signal.signal(signal.SIGINT, before)
