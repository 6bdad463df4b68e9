"""`hybridspec doctor`: what it says of whole and broken pairs, and of machines unlike this one."""

from __future__ import annotations

import importlib.util
import json
import re
import shutil
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch

from hybridspec import Engine, assets, processor
from hybridspec.bench import machine
from hybridspec.cli import doctor as verb
from hybridspec.core import Generation
from hybridspec.doctor import environment, memory
from hybridspec.doctor.checks import examined
from hybridspec.doctor.decoding import compared, kernels, launcher
from hybridspec.doctor.finding import Finding
from hybridspec.doctor.memory import Ledger
from hybridspec.doctor.setting import Setting
from hybridspec.kernels import support
from hybridspec.policy.profile import load_profile
from hybridspec.processor import processor_name
from hybridspec.profiles import pair_identity

CPU, CUDA = torch.device("cpu"), torch.device("cuda")
RUNTIME = {"device": "cpu", "dtype": "float32"}
NAMES = ["python", "torch", "threads", "triton", "cuda-bindings", "gpu", "target", "drafter",
         "profile", "memory", "load", "tokens", "kernels"]  # fmt: skip


@pytest.fixture(autouse=True)
def _nothing_said_yet(monkeypatch):
    monkeypatch.setattr(support, "_said", {})
    monkeypatch.setattr(processor, "_told", set())


@pytest.fixture
def doctor(command):
    """`doctor(*arguments)`: findings by name and the exit code."""

    def call(*arguments: str):
        got = command("doctor", "--device", "cpu", *arguments, "--json")
        checks = json.loads(got.out)["checks"]
        assert "Traceback" not in got.err
        return {c["name"]: Finding(**c) for c in checks}, got.code

    return call


def setting(device=CUDA, **found) -> Setting:
    return Setting(None, None, None, device, torch.float32, **found)


def only(check, case: Setting) -> Finding:
    (finding,) = check(case)
    return finding


def test_the_embedded_pair(doctor):
    found, code = doctor()
    assert code == 0
    assert list(found) == NAMES
    assert all(found[name].state == "OK" for name in ("target", "drafter", "memory", "load"))
    pair = json.loads(assets.PROFILE.read_text())["pair"]
    assert all(pair[part] in found[part].value for part in pair)
    assert found["profile"].state in ("OK", "note")  # a note on another processor
    assert str(assets.PROFILE) in found["profile"].value
    assert found["tokens"].state == "OK"
    said = r"32, equal to plain decoding's; ar [0-9.]+ s, auto [0-9.]+ s; acceptance length [2-9]"
    assert re.match(said, found["tokens"].value)


def test_one_line_a_check(command, pair):
    made = pair("flat")
    got = command("doctor", str(made.target), "--draft", str(made.draft), "--device", "cpu")
    assert got.code == 0
    lines = got.out.splitlines()
    assert [line[6:24].strip() for line in lines] == NAMES
    assert {line[:6] for line in lines} == {"OK    ", "note  "}
    (tokens,) = (line for line in lines if "plain decoding's" in line)
    assert tokens.endswith("acceptance length 3.88")  # static:4: 31 tokens after the first in 8
    assert got.err == "Reading the checkpoints ...\nLoading the weights ...\nDecoding ...\n"


def test_a_drafter_of_another_target(doctor, pair, tmp_path):
    made = pair("flat")
    draft = shutil.copytree(made.draft, tmp_path / "drafter")
    config = json.loads((draft / "config.json").read_text())
    (draft / "config.json").write_text(json.dumps(config | {"vocab_size": 300}))
    found, code = doctor(str(made.target), "--draft", str(draft))
    assert code == 1
    assert found["target"].state == "OK"
    assert found["checkpoints"].state == "FAIL"
    assert found["checkpoints"].value == (
        "The drafter does not fit the target: the drafter's vocab_size is 300 and the target's "
        "vocab_size is 264. Use the drafter that was made for this target."
    )
    for name in ("profile", "memory", "load", "tokens", "kernels"):
        assert (found[name].state, found[name].value) == ("note", "not checked")


def test_what_only_loading_finds(doctor, pair, tmp_path):
    target = shutil.copytree(pair("flat").target, tmp_path / "target")
    (target / "tokenizer.json").unlink()
    found, code = doctor(str(target))
    assert code == 1
    assert found["load"].state == "FAIL"
    assert "tokenizer.json" in found["load"].value
    assert found["tokens"].value == "not checked"


def test_a_model_that_is_not_there(doctor, tmp_path):
    found, code = doctor(str(tmp_path / "none"))
    assert code == 1
    assert "no checkpoint at" in found["checkpoints"].value


def test_a_target_alone(doctor, pair):
    found, code = doctor(str(pair("flat").target))
    assert code == 0
    assert found["drafter"].state == "note"
    assert "--draft" in found["drafter"].advice
    assert "profile" not in found
    assert found["tokens"].value.startswith("32 tokens, ar ")


def test_profiles_that_do_not_serve(doctor, pair, tmp_path):
    made = pair("flat")
    options = (str(made.target), "--draft", str(made.draft), "--profile")
    found, code = doctor(*options, str(assets.PROFILE))
    assert code == 0
    assert found["profile"].state == "note"
    assert "was made for another target" in found["profile"].value
    assert "`hybridspec calibrate`" in found["profile"].value
    assert "static:4" in found["tokens"].value
    (tmp_path / "p.json").write_text("{")
    found, code = doctor(*options, str(tmp_path / "p.json"))
    assert code == 1
    assert found["profile"].state == "FAIL"
    assert "is not JSON" in found["profile"].value


def test_a_profile_that_serves_is_decoded_with(command, doctor, pair, tmp_path):
    made, path = pair("flat"), tmp_path / "p.json"
    own = pair_identity(made.target, made.draft)
    replace(load_profile(assets.PROFILE), pair=own, runtime=RUNTIME).save(path)
    found, code = doctor(str(made.target), "--draft", str(made.draft), "--profile", str(path))
    assert code == 0
    assert found["profile"].state == "OK"
    assert found["profile"].value == f"{path}, fitted to this pair on a CPU in float32"
    assert " auto " in found["tokens"].value
    runtime = RUNTIME | {"cpu": "Another CPU"}
    replace(load_profile(path), runtime=runtime).save(path)
    options = (str(made.target), "--draft", str(made.draft), "--profile", str(path))
    got = command("doctor", "--device", "cpu", *options)
    (said,) = (line for line in got.out.splitlines() if " profile " in line)
    assert said.startswith("note")
    assert "on Another CPU in float32" in said
    assert f"This is {processor_name()}" in said
    assert "`hybridspec calibrate --help` and docs/policy.md" in said
    assert "another processor" not in got.err  # it is said once


def test_no_profile_says_how_to_make_one(doctor, pair):
    made = pair("flat")
    found, _ = doctor(str(made.target), "--draft", str(made.draft))
    assert (found["profile"].state, found["profile"].value) == ("note", "none that fits")
    assert "`hybridspec calibrate --help`" in found["profile"].advice


def test_bad_options_are_refused_before_anything_is_checked(command):
    command("doctor", "--device", "tpu9").refused("'tpu9'")
    command("doctor", "--dtype", "int4").refused("'int4'")
    command("doctor", "a", "b").refused("b", "--help")


def test_an_engine_that_cannot_be_imported(command, monkeypatch):
    def broken():
        raise OSError("libcudart.so.13: cannot open shared object file")

    monkeypatch.setattr(verb, "import_engine", broken)
    got = command("doctor")
    assert got.code == 1
    assert got.out.splitlines()[1].startswith("FAIL  packages")
    assert "libcudart.so.13" in got.out


def test_an_error_in_a_check_is_its_finding():
    def check(_):
        yield Finding("x", "OK", "first")
        raise ValueError("no such thing\nand more")

    first, second = examined("x", check, setting())
    assert first.state == "OK"
    assert second.state == "FAIL"
    assert second.value == "ValueError: no such thing"
    assert second.line == f"FAIL  x                 ValueError: no such thing. {second.advice}"


@pytest.mark.parametrize(
    ("check", "on_gpu"),
    [(environment.triton, "note"), (environment.cuda_bindings, "FAIL")],
)
def test_packages_that_are_missing(monkeypatch, check, on_gpu):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    cpu, cuda = only(check, setting(CPU)), only(check, setting(CUDA))
    assert (cpu.state, cuda.state) == ("note", on_gpu)
    assert {cpu.value, cuda.value} == {"not installed"}
    assert "A CPU needs none" in cpu.advice
    assert "install" in cuda.advice


@pytest.mark.parametrize(("capability", "state"), [((7, 5), "note"), ((8, 0), "OK")])
def test_a_card(monkeypatch, capability, state):
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _: capability)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda _: (10**9, 24 * 10**9))
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda _: "Card")
    monkeypatch.setattr(machine, "machine", lambda _: {"driver": "580.1"})
    found = only(environment.gpu, setting())
    assert found.state == state
    assert "1.0 GB of 24.0 GB free, driver 580.1" in found.value


@pytest.mark.parametrize(
    ("built", "driver", "state"),
    [
        ("12.8", (12, 8), "OK"),
        ("13.0", (12, 6), "note"),
        ("12.6", (13, 0), "note"),
        ("13.0", None, "OK"),
    ],
)
def test_conditional_nodes_need_both_versions(monkeypatch, built, driver, state):
    monkeypatch.setattr(torch.version, "cuda", built)
    monkeypatch.setattr(environment, "_driver", lambda: driver)
    assert only(environment.conditional_nodes, setting()).state == state


def test_the_ledger_is_what_the_engine_takes():
    engine = Engine.load(device="cpu")
    ledger = Ledger.of(engine.target, engine.drafter, CPU)
    assert (ledger.state, ledger.context) == (engine.nbytes, engine.max_context)
    kept = sum(tensor.nbytes for tensor in engine.target.slots().values())
    assert ledger.target == kept
    assert ledger.total > ledger.state + ledger.target


def test_memory_that_is_not_there(doctor, monkeypatch):
    monkeypatch.setattr(memory, "free_bytes", lambda _: 10**6)
    found, code = doctor()
    assert code == 1
    assert found["memory"].state == "FAIL"
    assert "1.0 MB free on cpu" in found["memory"].value
    assert found["load"].value == "not checked"


def test_answers_that_differ():
    plain = Generation("", (1, 2, 3), "length", 1, "ar")
    drafted = replace(plain, token_ids=(1, 5, 3), system="static:4")
    assert compared(plain, plain, exact=True).state == "OK"
    fault, tie = (compared(plain, drafted, exact=exact) for exact in (True, False))
    assert fault.state == "FAIL"
    assert "static:4 differs from plain decoding at token 1;" in fault.value
    assert tie.state == "note"
    assert "bench verify" in tie.advice


@pytest.mark.parametrize(("name", "state"), [("loop", "OK"), ("switch", "OK"), ("host", "note")])
def test_who_leads_on_a_gpu(name, state):
    found = only(launcher, setting(engine=SimpleNamespace(launcher=name)))
    assert found.state == state
    assert name in found.value
    assert list(launcher(setting(CPU))) == []


def test_what_kernels_leave_to_torch_is_listed_once(monkeypatch):
    engine = Engine.load(device="cpu")
    monkeypatch.setattr(support, "missing", lambda _: "Triton is not installed")
    support.once("Verifications run in plain torch, slower than they could: "
                 "Triton is not installed.")  # fmt: skip
    support.once("The GDN verifier block runs in torch, not in our kernels.")
    found = list(kernels(setting(engine=engine)))
    assert [f.state for f in found] == ["note"] * 3
    assert [f.value for f in found] == [
        "verifications run in torch: Triton is not installed",
        "drafts run in torch: Triton is not installed",
        "The GDN verifier block runs in torch, not in our kernels.",
    ]
