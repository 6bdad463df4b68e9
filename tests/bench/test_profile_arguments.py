from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from hybridspec.bench.profile_arguments import PROMPTS, TOKENS, ProfileOptions, parse
from hybridspec.errors import RequestError


def test_defaults_are_the_papers_prompts_and_tokens():
    options = parse(["--out", "x"], "profile")
    assert options == ProfileOptions(out=Path("x"))
    assert (options.limit, options.max_tokens) == (PROMPTS, TOKENS) == (10, 32)
    assert options.lengths is None


def test_lengths_are_sorted():
    assert parse(["--out", "x", "--lengths", "16, 2,4"], "profile").lengths == (2, 4, 16)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--lengths", "1,x"], r"--lengths is '1,x'; expected whole numbers"),
        (["--lengths", "2,17"], "--lengths is 17; expected 1 to 16"),
        (["--lengths", "0"], "--lengths is 0; expected 1 to 16"),
        (["--lengths", "2,2"], "--lengths is '2,2'; expected lengths such as"),
        (["--lengths", ","], "--lengths is ''; expected lengths such as"),
        (["--max-tokens", "1"], "--max-tokens is 1; expected at least 2"),
        (["--limit", "0"], "--limit is 0; expected at least 1"),
        (["--threads", "0"], "--threads is 0; expected 1 to"),
    ],
)
def test_what_cannot_be_measured_is_refused(arguments, said):
    with pytest.raises(RequestError, match=said):
        parse(["--out", "x", *arguments], "profile")


def test_help_needs_no_torch():
    code = (
        "import sys; sys.modules.update(torch=None, numpy=None)\n"
        "from hybridspec.bench.profile import main\n"
        "main(['--help'])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "--lengths W,W" in done.stdout
