from __future__ import annotations

import subprocess
import sys

from hybridspec import __version__

LIGHT = """
import sys
from hybridspec.cli.main import run
lines = ("--version", "--help", "generate --help", "bench --help", "serve --help", "-h", "")
codes = [run(line.split()) for line in lines]
heavy = {"torch", "numpy", "tokenizers", "jinja2", "safetensors", "huggingface_hub", "rich"}
heavy |= {"fastapi", "uvicorn", "prometheus_client"}
assert codes == [0] * 7, codes
assert not heavy & set(sys.modules), heavy & set(sys.modules)
"""
# The base install has no transformers; the rest is imported only when it is needed.
SPARING = """
import sys
from hybridspec.cli.main import run
code = run(sys.argv[1:])
heavy = {"transformers", "huggingface_hub", "httpx", "rich", "matplotlib", "scipy", "fastapi"}
assert not heavy & set(sys.modules), heavy & set(sys.modules)
sys.exit(code)
"""


def python(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, timeout=120, check=False
    )


def test_help_and_version_import_nothing_heavy():
    done = python("-c", LIGHT)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"hybridspec {__version__}\nUsage: hybridspec ")
    assert "Usage: hybridspec generate [OPTIONS] [PROMPT]\n" in done.stdout


def test_generate_imports_what_it_needs(pair):
    done = python("-c", SPARING, "generate", "x", "--raw", "-n", "4", *pair("cycle").options)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "yzé\n"


def test_module_is_the_command():
    done = python("-m", "hybridspec", "--version")
    assert (done.returncode, done.stdout) == (0, f"hybridspec {__version__}\n")
    done = python("-m", "hybridspec", "generate", "--xyzzy")
    assert done.returncode == 2
    assert done.stderr == "Error: No such option: --xyzzy. See hybridspec generate --help.\n"


def test_usage_errors_are_sentences(command):
    got = command("generat")
    assert (got.code, got.out) == (2, "")
    assert got.err.endswith("Did you mean 'generate'? See hybridspec --help.\n")
    command("speak").refused("speak", "See hybridspec --help")
    command("generate", "--file").refused("--file")


def test_help_names_every_launcher_and_no_verb_speaks_of_another(command):
    for verb in ("generate", "chat", "serve"):
        told = command(verb, "--help").out
        assert "eager" in told
        assert "chat only" not in told
