from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from hybridspec.bench.arguments import SWEEP, parse
from hybridspec.bench.options import ABLATION, SpeedOptions
from hybridspec.bench.prompts import DEFAULT
from hybridspec.errors import RequestError


def options(*arguments):
    return parse([*arguments, "--out", "results"], "bench")


def test_defaults_are_the_dataclass_ones():
    assert options() == SpeedOptions(out=Path("results"))
    assert options().prompts == DEFAULT


def test_lists_are_split_at_commas():
    asked = options("--systems", "ar, static:3,", "--categories", "math,qa")
    assert asked.systems == ("ar", "static:3")
    assert asked.categories == ("math", "qa")


def test_sweep_stands_for_its_list_without_doubles():
    assert options("--systems", "sweep").systems == SWEEP
    asked = options("--systems", "static:5,sweep").systems
    assert asked[0] == "static:5"
    assert sorted(asked) == sorted(SWEEP)


def test_the_device_decides_what_is_not_said():
    """A GPU follows the paper's E.1; a CPU would take all day."""
    gpu, cpu = (options().settled(kind) for kind in ("cuda", "cpu"))
    assert (gpu.max_tokens, gpu.repeats, gpu.processes) == (1024, 3, 3)
    assert (cpu.max_tokens, cpu.repeats, cpu.processes) == (256, 1, 0)
    said = options("--max-tokens", "7", "--repeats", "2").settled("cuda")
    assert (said.max_tokens, said.repeats, said.processes) == (7, 2, 0)
    assert options("--processes", "2").settled("cpu").repeats == 2
    assert options("--processes", "0").settled("cuda").repeats == 1
    assert gpu.settled("cuda") == gpu


def test_the_ablation_has_its_own_systems():
    asked = options("--ablation")
    assert asked.systems == ("ar", "hybridspec", *ABLATION)
    assert asked.ablation


@pytest.mark.parametrize(("given", "chat"), [([], None), (["--chat"], True), (["--raw"], False)])
def test_chat_follows_the_checkpoint_unless_said(given, chat):
    assert options(*given).chat is chat


def test_the_baseline_is_plain_decoding_or_the_first():
    assert options("--systems", "dflash,ar").baseline == "ar"
    assert options("--systems", "dflash,static:2").baseline == "dflash"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["--max-tokens", "1"], "--max-tokens is 1; expected at least 2"),
        (["--max-tokens", "-5"], "--max-tokens is -5"),
        (["--repeats", "0"], "--repeats is 0; expected 1 to 1000"),
        (["--warmup", "7"], "--warmup is 7; expected at least 8"),
        (["--threads", "0"], "--threads is 0"),
        (
            ["--threads", str(10**12)],
            r"--threads is 1000000000000; expected 1 to \d+: this machine",
        ),
        (["--repeats", str(10**12)], "--repeats is 1000000000000; expected 1 to 1000"),
        (["--processes", "-1"], "--processes is -1; expected 0 to 1000"),
        (["--limit", "0"], "--limit is 0"),
        (["--systems", ","], "--systems names none"),
        (["--systems", "ar,dflash,ar"], "--systems names ar twice"),
        (["--raw", "--thinking"], "--thinking is for chat prompts"),
    ],
)
def test_values_out_of_range_are_refused(given, said):
    with pytest.raises(RequestError, match=said):
        options(*given)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["--max-tokens", "x", "--out", "d"], "Error: --max-tokens: invalid int value: 'x'"),
        (["--chat", "--raw", "--out", "d"], "not allowed with argument"),
        (["--repeats", "2", "--processes", "2", "--out", "d"], "not allowed with argument"),
        (["--nonsense", "--out", "d"], "unrecognized arguments: --nonsense"),
        ([], "required: --out"),
    ],
)
def test_wrong_syntax_exits_with_2(given, said, capsys):
    with pytest.raises(SystemExit) as ended:
        parse(given, "bench")
    assert ended.value.code == 2
    assert said in capsys.readouterr().err


def test_help_needs_neither_torch_nor_typer():
    code = (
        "import sys\n"
        "from hybridspec.bench.speed import main\n"
        "try: main(['--help'])\n"
        "except SystemExit as ended: print('exit', ended.code)\n"
        "print([m for m in ('torch', 'typer', 'matplotlib', 'rich') if m in sys.modules])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "anchor and w - 1 drafts" in done.stdout
    assert done.stdout.splitlines()[-2:] == ["exit 0", "[]"]


def test_the_help_says_what_a_run_may_go_on_with(capsys):
    with pytest.raises(SystemExit):
        parse(["--help"], "bench")
    said = " ".join(capsys.readouterr().out.split())
    assert "another number of threads (--threads, or OMP_NUM_THREADS where torch chooses)" in said
    assert "DIR/speed.records.jsonl" in said
