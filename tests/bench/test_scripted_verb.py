"""The verb of scripted runs: a whole small run, what it refuses, and what it must not import."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import asdict

import pytest

from hybridspec.bench.scripted.plan import Plan
from hybridspec.bench.scripted.verb import SYSTEMS, main, parser
from hybridspec.bench.scripted.weights import RECIPES
from hybridspec.errors import RequestError

ABSENT = ("pydantic", "typer", "fastapi", "sklearn")  # of a GPU machine


def plan(*arguments: str) -> Plan:
    return Plan.of(parser(None).parse_args(["--small", *arguments]))


@pytest.fixture(scope="module")
def document(tmp_path_factory):
    out = tmp_path_factory.mktemp("out")
    code = main([
        "--small", "--systems", "dflash,hybridspec", "--categories", "coding,roleplay", "--out",
        str(out), "--calibration-tokens", "6", "--tokens", "60",
    ])  # fmt: skip
    assert code == 0
    return json.loads((out / "scripted.json").read_text())


def test_a_run_reports_every_system_of_every_category(document):
    assert [*document["systems"]] == ["ar", "dflash", "hybridspec"]
    for name, body in document["systems"].items():
        assert [*body["categories"]] == ["coding", "roleplay"]
        for row in body["categories"].values():
            assert row["tokens"] == 60
            assert row["acceptance_length"] == pytest.approx(60 / row["rounds"])
            assert row["ms_per_round"] == pytest.approx(1e3 * row["seconds"] / row["rounds"])
            assert (row["speedup"] == 1) == (name == "ar")
    ar = document["systems"]["ar"]["mean"]
    assert (ar["acceptance_length"], ar["mean_w"]) == (1, 1)
    assert document["systems"]["dflash"]["mean"]["mean_w"] > 8  # 16 but for an answer's end


def test_it_says_what_was_scripted(document):
    assert document["shape_is"] == "small"
    facts = document["facts"]
    assert facts["distinct"]["1"] == 4
    assert facts["distinct"]["4"] < facts["distinct"]["8"] < facts["distinct"]["16"] < 32
    assert 0 < facts["least_margin"] < facts["margin"] < 1
    assert document["recipe"] == asdict(RECIPES["skewed"])
    part = document["traces"]["test/coding"]
    assert part["mean"] == pytest.approx(part["published"], rel=0.01)
    assert "GDN states" in document["control"]
    assert document["executor"] == "host"


def test_it_calibrates_the_runtime_that_it_measures(document):
    profile = document["profile"]
    assert [*profile["cost"]] == ["exact/eager"]
    cost = profile["cost"]["exact/eager"]
    assert [*cost["ms"]] == [str(w) for w in range(2, 17)]
    assert all(ms > 0 for ms in cost["ms"].values())
    assert cost["plain_ms"] > 0
    assert cost["rho"] > 0
    # an input of a block adds to 4 experts a layer at most, 8 layers
    assert all(0 < n <= 32 for n in profile["n_all_mean"][1:])


def test_plain_decoding_comes_first_and_once():
    assert plan("--systems", "static:4,ar").systems == ("ar", "static:4")
    assert plan().systems == SYSTEMS


def test_verifiers_are_those_of_systems_that_read_a_profile():
    assert plan("--systems", "dflash,length16").verifiers == ("exact",)
    assert plan("--systems", "hybridspec:per-token,static:4:block").verifiers == (
        "exact", "per-token",
    )  # fmt: skip
    assert plan("--systems", "evict+replayssm,static").verifiers == ("exact", "replay")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--categories", "coding,poetry"], "poetry"),
        (["--systems", "warp"], "The system 'warp' is unknown"),
        (["--systems", "static:40"], "static takes a number"),
        (["--traces", "/nowhere.npz"], "/nowhere.npz cannot be read"),
    ],
)
def test_what_cannot_run_is_refused_with_a_sentence(arguments, said, capsys):
    assert main(["--small", *arguments]) == 2
    assert said in capsys.readouterr().err


def test_counts_start_at_one():
    with pytest.raises(SystemExit):
        plan("--tokens", "0")
    with pytest.raises(RequestError):
        plan("--systems", "static:0")


def imported(code: str) -> set[str]:
    """Modules that a fresh interpreter has imported after some code; ABSENT ones fail."""
    block = f"import sys; sys.modules.update({dict.fromkeys(ABSENT)!r}); "
    show = "; print(*sys.modules)"
    command = [sys.executable, "-c", block + code + show]
    return {*subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()}


def test_everything_imports_where_a_gpu_machine_lacks_packages():
    modules = imported("import hybridspec.bench.scripted.main, hybridspec.bench.scripted.drafts")
    assert "torch" in modules


def test_the_verb_itself_imports_no_torch():
    assert "torch" not in imported("import hybridspec.bench.scripted.verb")
