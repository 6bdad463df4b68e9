"""Scripted pairs on CUDA: the drafts' kernel, a few layers of the 35B's sizes through the engine's
kernels, and the whole 35B shape where it fits.

Run by `make test-gpu`.
"""

from __future__ import annotations

import time
from dataclasses import replace
from functools import partial

import pytest
import torch

from bench.scripted_models import expected_of
from bench.scripted_models import said as said_along
from hybridspec.bench.scripted import drafts as kernel
from hybridspec.bench.scripted import script as law
from hybridspec.bench.scripted.answers import Answers
from hybridspec.bench.scripted.calibration import blocks
from hybridspec.bench.scripted.check import Expected, check_control
from hybridspec.bench.scripted.executor import HostExecutor
from hybridspec.bench.scripted.facts import Facts, observe
from hybridspec.bench.scripted.model import Pair
from hybridspec.bench.scripted.script import Drafts
from hybridspec.bench.scripted.shapes import SHAPES, Shape
from hybridspec.bench.scripted.traces import Traces
from hybridspec.bench.scripted.verb import TRACES, main
from hybridspec.bench.scripted.weights import RECIPES
from hybridspec.runtime.launched import LaunchedTarget

pytestmark = pytest.mark.gpu
CUDA, CONTEXT, TOKENS = torch.device("cuda"), 300, 100
WHOLE = 100e9  # bytes of memory for the 35B shape and some room
ALONG = {"category": "rag", "tokens": TOKENS}
said = partial(said_along, **ALONG)
SYSTEMS = ("static:2", "static:3", "static:7", "static:16", "length16")


def built(shape: Shape) -> Pair:
    traces = Traces.load(TRACES)
    named = {
        (split, category): thin
        for split in ("calibration", "test")
        for category, thin in traces.of("qwen3.6", split, 1000).items()
    }
    return Pair.make(shape, RECIPES["skewed"], named, CUDA, torch.bfloat16)


@pytest.fixture(scope="module")
def pair() -> Pair:
    """Four of the 35B's layers: every kernel of its pass, and 3 GB."""
    whole = SHAPES["35b"]
    target = replace(
        whole.target, layer_types=whole.target.layer_types[:4], vocab_size=8192, num_experts=128
    )
    drafter = replace(
        whole.drafter, vocab_size=8192, mask_token_id=8190, target_layer_ids=(0, 1, 3),
        num_target_layers=4, layer_types=("sliding_attention", "full_attention"),
    )  # fmt: skip
    return built(Shape(target, drafter, {8000, *range(8190, 8192)}))


@pytest.fixture(scope="module")
def answers(pair) -> Answers:
    capacity = CONTEXT + TOKENS + 1
    made = Answers(pair, HostExecutor(pair, capacity), capacity)
    made.prompt(50, CONTEXT)
    return made


@pytest.fixture
def expected(answers) -> Expected:
    return expected_of(answers, **ALONG)


def test_recorded_drafts_follow_what_changes_on_the_device(pair):
    anchor = torch.zeros(1, dtype=torch.int64, device=CUDA)
    position = torch.zeros((), dtype=torch.int32, device=CUDA)
    ours, theirs = Drafts.empty(CUDA), Drafts.empty(CUDA)
    kernel.draft(pair.script, anchor, position, ours)  # compiles
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        kernel.draft(pair.script, anchor, position, ours)
    for turn, name in enumerate(pair.parts):
        pair.begin(name, 100 * turn, turn / len(pair.parts))
        for step in range(20):
            anchor.copy_(pair.cycle.run(31 * turn + step, 1))
            position.fill_(100 * turn + step)
            graph.replay()
            law.draft(pair.script, anchor, position, theirs)
            assert all(torch.equal(a, b) for a, b in zip(ours, theirs, strict=True))


def test_the_target_follows_its_cycle_through_the_prompts_kernels(pair):
    looked = observe(pair.target, blocks(pair, 64), pair.cycle.successors())
    assert looked.right
    assert looked.ratio == pytest.approx(0.7, rel=0.15)
    assert looked.least_margin > 0.05


def test_the_kernels_are_used(answers):
    assert isinstance(answers.executor.target, LaunchedTarget)


@pytest.mark.parametrize("system", SYSTEMS)
def test_states_have_plain_decoding_s_bits(answers, expected, system):
    expected.check(system, "exact", said(answers, system))


def test_a_commit_of_one_input_too_few_is_found(answers, expected):
    found = check_control(expected, said(answers, "static:4", forget=True))
    assert "other GDN states than ar" in found


def test_the_small_shape_runs_whole(tmp_path):
    arguments = ["--small", "--systems", "length16,hybridspec", "--categories", "coding"]
    assert main([*arguments, "--out", str(tmp_path)]) == 0
    assert (tmp_path / "scripted.json").exists()


@pytest.mark.skipif(
    torch.cuda.is_available() and torch.cuda.get_device_properties(0).total_memory < WHOLE,
    reason="the 35B shape does not fit",
)
def test_the_whole_35b_shape_routes_as_text_does():
    began = time.perf_counter()
    whole = built(SHAPES["35b"])
    torch.cuda.synchronize()
    seconds = time.perf_counter() - began
    looked = observe(whole.target, blocks(whole, 128), whole.cycle.successors())
    facts = Facts.of(looked)
    assert looked.right
    assert facts.like_text, facts.line()
    wanted = {1: 8, 4: 25, 8: 37, 16: 50}
    assert all(facts.distinct[w] == pytest.approx(u, rel=0.1) for w, u in wanted.items())
    assert seconds < 60
