"""The command: a pipe's lines in this process, a terminal's in one of its own."""

from __future__ import annotations

import os
import pty
import re
import select
import subprocess
import sys
import time
from pathlib import Path

import pytest

from disk_pair import CYCLE

# The terminal becomes the process's own, so that its Ctrl-C reaches it.
START = (
    "import fcntl, signal, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); "
    "signal.signal(signal.SIGINT, signal.default_int_handler); "
    "from hybridspec.cli.main import main; main()"
)
CTRL_C, CTRL_D = b"\x03", b"\x04"


class Terminal:
    """A chat at a terminal of its own."""

    def __init__(self, *arguments: str) -> None:
        self._end, theirs = pty.openpty()
        self.process = subprocess.Popen(
            [sys.executable, "-c", START, "chat", *arguments],
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
            env=os.environ | {"OMP_NUM_THREADS": "1", "TERM": "dumb"},
        )
        os.close(theirs)
        self.seen = ""

    def type(self, keys: bytes) -> None:
        os.write(self._end, keys)

    def until(self, pattern: str) -> str:
        """What came up to the first match, which is taken off."""
        limit = time.monotonic() + 120
        while not (found := re.search(pattern, self.seen)):
            assert select.select([self._end], [], [], limit - time.monotonic())[0], self.seen
            self.seen += os.read(self._end, 65536).decode(errors="replace")
        before, self.seen = self.seen[: found.start()], self.seen[found.end() :]
        return before

    def prompted(self) -> None:
        """Until it waits for keys behind its prompt. Python's readline shows the prompt first, and
        overlooks until the next key a Ctrl-C that comes before it waits."""
        self.until("> ")
        stat, resting = Path(f"/proc/{self.process.pid}/stat"), 0
        while resting < 3 and self.process.poll() is None:
            asleep = stat.read_text().rpartition(")")[2].split()[0] == "S"
            resting = resting + 1 if asleep else 0
            time.sleep(0.01)

    def left(self) -> int:
        """The exit code."""
        code = self.process.wait(timeout=60)
        os.close(self._end)
        return code


@pytest.fixture
def terminal(pair):
    made: list[Terminal] = []

    def start(*arguments: str) -> Terminal:
        made.append(Terminal(*arguments, *pair("cycle").options))
        return made[-1]

    yield start
    for one in made:
        if one.process.poll() is None:
            one.process.kill()
            one.process.wait()


def test_ctrl_c_stops_the_answer_and_twice_leaves(terminal):
    chat = terminal("-n", "30000", "--system", "ar")
    assert "/help lists the commands" in chat.until("> ")
    chat.type(b"x\n")
    chat.until(CYCLE[:5])
    assert chat.process.poll() is None
    chat.type(CTRL_C)
    chat.until(r"\(Stopped\.\)\r\n")
    chat.until("> ")
    chat.type(b"/stats\n")
    chat.until("finish reason abort")
    chat.prompted()
    chat.type(CTRL_C)
    chat.until("Ctrl-C again leaves the chat")
    chat.prompted()
    chat.type(CTRL_C)
    assert chat.left() == 130


def test_ctrl_d_leaves(terminal):
    chat = terminal("-n", "3")
    chat.until("> ")
    chat.type("zwei é\n".encode())
    chat.until(r"\(Cut after 3 tokens: --max-tokens\.\)")
    chat.until("> ")
    chat.type(CTRL_D)
    assert chat.left() == 0


def test_a_pipe_s_lines_are_messages_and_commands(command, pair):
    """The pair says the alphabet from where the question's end leaves it; ten tokens each."""
    lines = b"one\r\n\n/think off\ntwo \xc3\xa9\n/stats\n/quit\nthree\n"
    said = command("chat", "-n", "10", *pair("cycle").options, stdin=lines)
    assert said.code == 0
    assert [len(line.encode()) for line in said.out.splitlines()] == [10, 10]
    first, *rest = said.err.splitlines()
    assert first == "(Cut after 10 tokens: --max-tokens.)"
    assert rest[0] == "(Thinking first is off.)"
    assert re.fullmatch(r"  prompt: \d+ tokens, [1-9]\d* of them kept from before; .*", rest[-2])
    assert rest[-1].startswith("This chat: 2 answers, 20 tokens, ")


def test_without_memory_nothing_is_kept(command, pair):
    options = ("-n", "2", "--prefix-memory", "0", *pair("cycle").options)
    said = command("chat", *options, stdin=b"one\ntwo\n/stats\n")
    assert " tokens, 0 of them kept from before; " in said.err


def test_no_lines_are_no_chat(command, pair):
    said = command("chat", *pair("cycle").options)
    assert (said.code, said.out, said.err) == (0, "", "")


def test_what_cannot_be_used(command, pair):
    options = pair("cycle").options
    command("chat", *options, stdin=b"/exit\n").refused("no command '/exit'")
    command("chat", *options, stdin=b"\xff\n").refused("not valid UTF-8 at byte offset 0")
    command("chat", "--system-prompt", " ", *options).refused("--system-prompt is empty")
    command("chat", "--max-tokens", "0", *options).refused("--max-tokens")
    command("chat", "--system", "none", *options).refused("none")
    command("chat", "--raw", *options).refused("--raw")
    bare = pair("cycle", template=False).options
    command("chat", *bare, stdin=b"x\n").refused("no chat template", "generate --raw")
