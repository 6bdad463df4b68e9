from __future__ import annotations

import os
import sys
import threading

import pytest

from hybridspec.cli.prompt import read_prompt
from hybridspec.errors import RequestError


def prompt_tokens(command, pair, *where: str, stdin: bytes = b"") -> int:
    flags = ("--raw", "-n", "1", "--json", *pair("flat").options)
    return command("generate", *where, *flags, stdin=stdin).json["usage"]["prompt_tokens"]


def test_argument_file_and_standard_input_are_the_same(command, pair, tmp_path):
    file = tmp_path / "prompt.txt"
    file.write_text("naïve €\n", encoding="utf-8")
    expected = len("naïve €".encode())
    piped = "naïve €\n".encode()
    assert prompt_tokens(command, pair, "naïve €") == expected
    assert prompt_tokens(command, pair, "--file", str(file)) == expected
    assert prompt_tokens(command, pair, "-", stdin=piped) == expected
    assert prompt_tokens(command, pair, stdin=piped) == expected
    assert prompt_tokens(command, pair, "--file", "-", stdin=piped) == expected


def test_one_line_end_is_dropped_and_a_byte_order_mark(tmp_path):
    file = tmp_path / "prompt.txt"
    for data, text in (
        (b"a\n\n", "a\n"),
        (b"a\r\n", "a"),
        (b"a", "a"),
        (b" a ", " a "),
        (b"\xef\xbb\xbfa\n", "a"),
    ):
        file.write_bytes(data)
        assert read_prompt(None, file) == text
    assert read_prompt("a\n", None) == "a\n"


@pytest.mark.parametrize("empty", ["", " ", "\n\t "])
def test_an_empty_prompt_is_refused(command, tmp_path, empty):
    file = tmp_path / "prompt.txt"
    file.write_text(empty)
    command("generate", empty).refused("prompt is empty")
    command("generate", "--file", str(file)).refused(str(file), "is empty")
    command("generate", "-", stdin=empty.encode()).refused("Standard input is empty")


def test_no_prompt_at_all(command, monkeypatch):
    said = ("no prompt", "argument", "--file", "standard input")
    command("generate").refused(*said)
    for stdin in (Terminal(), None):
        monkeypatch.setattr(sys, "stdin", stdin)
        with pytest.raises(RequestError, match="There is no prompt"):
            read_prompt(None, None)


class Terminal:
    """Would wait for ever if it were read."""

    def isatty(self) -> bool:
        return True


def test_two_prompts_are_refused(command, tmp_path):
    command("generate", "x", "--file", str(tmp_path / "y")).refused("two prompts", "--file")
    command("generate", "-", "--file", str(tmp_path / "y")).refused("two prompts", "--file")


def test_unreadable_files_are_refused(command, tmp_path):
    missing = str(tmp_path / "no")
    command("generate", "--file", missing).refused(missing, "No such file")
    command("generate", "--file", str(tmp_path)).refused(str(tmp_path), "directory")


def test_a_file_without_permission_is_refused(tmp_path):
    file = tmp_path / "prompt.txt"
    file.write_text("secret")
    file.chmod(0)
    with as_nobody(), pytest.raises(RequestError, match="Permission denied"):
        read_prompt(None, file)


class as_nobody:
    """The superuser may read everything, so the tests of containers step down."""

    def __enter__(self) -> None:
        self._before = os.geteuid()
        if self._before == 0:
            os.seteuid(65534)

    def __exit__(self, *_) -> None:
        os.seteuid(self._before)


def test_a_file_that_never_ends_is_refused(command):
    command("generate", "--file", "/dev/zero").refused("/dev/zero", "more than 16 MiB")


def test_too_much_is_refused_and_as_much_as_may_be_is_not(command, tmp_path, monkeypatch):
    monkeypatch.setattr("hybridspec.cli.prompt.MOST_BYTES", 2**20)
    file = tmp_path / "prompt.txt"
    file.write_bytes(b"x" * 2**20)
    assert len(read_prompt(None, file)) == 2**20
    file.write_bytes(b"x" * (2**20 + 1))
    command("generate", "--file", str(file)).refused(str(file), "more than 1 MiB")
    command("generate", "-", stdin=file.read_bytes()).refused("Standard input", "more than 1 MiB")


def test_a_pipe_that_ends_is_as_good_as_a_file(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_bytes, args=(b"said\n",))
    writer.start()
    assert read_prompt(None, pipe) == "said"
    writer.join()


@pytest.mark.parametrize(
    ("data", "place"),
    [(b"ab\xff", "offset 2 (0xff)"), (b"\xef\xbb\xbfx\xc3", "offset 4 (0xc3)")],
)
def test_invalid_utf8_is_refused_with_its_place(command, tmp_path, data, place):
    file = tmp_path / "prompt.txt"
    file.write_bytes(data)
    command("generate", "--file", str(file)).refused(str(file), "not valid UTF-8", place)
    command("generate", "-", stdin=data).refused("Standard input is not valid UTF-8", place)
    command("generate", stdin=data).refused("Standard input is not valid UTF-8", place)
    command("generate", os.fsdecode(data)).refused("The prompt is not valid UTF-8", place)
