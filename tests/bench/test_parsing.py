"""What is wrong with a bench's command line is one sentence that names the argument."""

from __future__ import annotations

import pytest

from hybridspec.bench import quality, verify
from hybridspec.bench.arguments import parse
from hybridspec.bench.parsing import Parser
from hybridspec.bench.scripted import ledger, record, verb
from hybridspec.bench.scripted.clocks import verb as clocks
from hybridspec.bench.soak import main as soak


def parser() -> Parser:
    made = Parser(prog="bench it")
    made.add_argument("folder")
    made.add_argument("--count", type=int)
    made.add_argument("--kind", choices=["a", "b"])
    return made


@pytest.mark.parametrize(
    ("line", "named"),
    [
        ("x --count many", "--count: invalid int value: 'many'"),
        ("x --count", "--count: expected one argument"),
        ("x --kind c", "--kind: invalid choice: 'c' (choose from"),
        ("x --other 1", "unrecognized arguments: --other 1"),
        ("", "the following arguments are required: folder"),
    ],
)
def test_a_wrong_line_is_a_sentence_with_the_arguments_name(line, named, capsys):
    with pytest.raises(SystemExit) as ended:
        parser().parse_args(line.split())
    assert ended.value.code == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith(f"Error: {named}")
    assert said.err.endswith(". See bench it --help.\n")
    assert said.err.count("\n") == 1


def test_help_is_argparses(capsys):
    with pytest.raises(SystemExit) as ended:
        parser().parse_args(["--help"])
    assert ended.value.code == 0
    assert capsys.readouterr().out.startswith("usage: bench it [-h]")


@pytest.mark.parametrize(
    "read",
    [
        lambda line: parse(line, "bench"),
        verify.main,
        quality.main,
        ledger.main,
        record.main,
        verb.main,
        clocks.main,
        soak.main,
    ],
)
def test_every_bench_says_it_so(read, capsys):
    with pytest.raises(SystemExit):
        read(["--no-such-thing"])
    assert capsys.readouterr().err.startswith("Error: ")
