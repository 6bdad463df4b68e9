"""The embedded pair: its files, its size, and that speculation does not change what it says."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from hybridspec import Engine, SamplingParams, assets
from hybridspec.bench.prompts import read_prompts, select
from hybridspec.profiles import pair_identity
from hybridspec.runtime.state import TargetState
from lossless import differences

OWN_PROMPTS = Path(assets.__file__).parent / "prompts.jsonl"
SYSTEMS = ["static:2", "static:3", "static:5", "static:8", "static:16", "dflash"]
SYSTEMS += ["hybridspec", "auto"]
PARAMS = {
    "greedy": SamplingParams(max_tokens=48),
    "plain": SamplingParams(max_tokens=48, temperature=1.0, seed=7),
    "filtered": SamplingParams(
        max_tokens=48, temperature=0.6, top_p=0.95, top_k=20, seed=2**63 + 5
    ),
}
FEW = {"greedy": slice(4), "plain": slice(4, 6), "filtered": slice(6, 8)}


@pytest.fixture(scope="module")
def engine() -> Engine:
    return Engine.load(device="cpu", max_context=1024)


@pytest.fixture(scope="module")
def prompts(engine: Engine) -> list[list[int]]:
    chosen = select(read_prompts(OWN_PROMPTS), limit=12)
    return [engine.encode(p.text, chat=True) for p in chosen]


def test_its_profile_fits_it_and_is_calibrated(engine):
    profile = engine.profile
    assert profile is not None
    assert profile.pair == pair_identity(assets.TARGET, assets.DRAFTER)
    errors = {name: r["ece"] for name, r in profile.data["reliability"].items()}
    assert errors["model"] < 0.02  # on prompts left out of the fit
    assert errors["model"] < errors["confidence"]


def test_its_profile_is_for_a_cpu_in_float32_only():
    engine = Engine.load(device="cpu", dtype="float64", max_context=64)
    assert engine.profile is None


@pytest.mark.parametrize("name", PARAMS)
def test_every_system_gives_the_tokens_of_ar(engine, prompts, name):
    """Each way on prompts of its own."""
    assert differences(engine, prompts[FEW[name]], SYSTEMS, PARAMS[name]) == []


@pytest.mark.full
@pytest.mark.parametrize("name", PARAMS)
def test_so_it_does_on_all_twelve_prompts(engine, prompts, name):
    assert differences(engine, prompts, SYSTEMS, PARAMS[name]) == []


@pytest.mark.parametrize("w", [2, 3, 5, 8, 16])
def test_bits_do_not_depend_on_the_length(engine, prompts, w):
    """On a CPU, `exact` verification gives plain decoding's logits bit for bit."""
    tokens = torch.tensor(prompts[0] + prompts[1])
    start, stop = len(prompts[0]), len(prompts[0]) + 48
    plain, wide = [], []
    for length, rows in ((1, plain), (w, wide)):
        slot = TargetState(engine.target.config, 1024).slot()
        engine.target.prefill(tokens[:start], slot)
        while slot.length < stop:
            ids = tokens[slot.length : slot.length + length]
            stage0 = engine.target.stage0(ids, slot, "exact")
            logits = engine.target.stage1(stage0, length, slot, "exact").logits
            m = max(1, length - 1)
            slot.commit(m, "exact")
            rows += logits[:m]
    assert torch.equal(torch.stack(wide)[:48], torch.stack(plain)[:48])


def test_drafts_are_accepted(engine, prompts):
    """A broken feature path still gives right tokens, but fewer a round (A28)."""
    params = SamplingParams(max_tokens=48)
    answers = [engine.generate(p, params, system="dflash") for p in prompts]
    rounds = [r for a in answers for r in a.stats.rounds]
    share = sum(r.accepted for r in rounds) / sum(r.w - 1 for r in rounds)
    assert share == pytest.approx(0.187, abs=0.02)  # this pair's; two points would be a fault


def test_count_to_twenty(engine):
    """A20: a short, readable smoke test."""
    answer = engine.generate("Count from 1 to 20.", SamplingParams(max_tokens=64), chat=True)
    assert answer.text.strip()
    plain = engine.generate(
        "Count from 1 to 20.", SamplingParams(max_tokens=64), chat=True, system="ar"
    )
    assert answer.token_ids == plain.token_ids


def test_committed_state_is_checked(engine, prompts, monkeypatch):
    monkeypatch.setenv("HYBRIDSPEC_CHECK", "1")
    for prompt in prompts[:4]:
        for system in ("ar", "static:5", "dflash"):
            engine.generate(prompt, SamplingParams(max_tokens=40), system=system)


def test_size():
    files = [f for f in assets.PAIR.rglob("*") if f.is_file()]
    assert sum(f.stat().st_size for f in files) <= 28_000_000
    assert max(f.stat().st_size for f in files) <= 14_000_000


def test_parameters(engine):
    assert sum(s.numel() for s in engine.target.slots().values()) <= 11_000_000
    assert engine.drafter is not None
    assert sum(s.numel() for s in engine.drafter.slots().values()) <= 2_500_000
    assert engine.drafter.config.block_size == 16
    assert len(engine.drafter.config.target_layer_ids) >= 3
    config = engine.target.config
    assert config.num_hidden_layers >= 8
    assert config.num_experts >= 32
    assert config.num_experts_per_tok >= 4


def test_transformers_loads_the_target(engine, prompts):
    """The files are real: transformers computes the same logits from them (float32, rounding)."""
    from transformers import Qwen3_5MoeForCausalLM

    theirs = Qwen3_5MoeForCausalLM.from_pretrained(assets.TARGET, dtype=torch.float32).eval()
    slot = TargetState(engine.target.config, 512).slot()
    for prompt in prompts[:3]:
        slot.reset()
        ours = engine.target.prefill(torch.tensor(prompt), slot).logits[0]
        expected = theirs(torch.tensor([prompt])).logits[0, -1]
        torch.testing.assert_close(ours, expected, atol=2e-3, rtol=0)  # logits reach 20


@pytest.mark.parametrize("thinking", [False, True])
def test_transformers_loads_the_tokenizer(engine, thinking):
    from transformers import AutoTokenizer

    theirs = AutoTokenizer.from_pretrained(assets.TARGET)
    messages = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Name 2 rivers, né?"},
    ]
    rendered = theirs.apply_chat_template(
        messages, tokenize=False, add_generation_prompt=True, enable_thinking=thinking
    )
    assert engine.tokenizer.render_chat(messages, enable_thinking=thinking) == rendered
    expected = theirs(rendered, add_special_tokens=False)["input_ids"]
    assert engine.encode(messages, enable_thinking=thinking) == expected


def test_two_stop_ids(engine):
    """<|im_end|> and <|endoftext|>, as the real checkpoints have."""
    config = json.loads((assets.TARGET / "generation_config.json").read_text())
    assert len(config["eos_token_id"]) == 2
    assert engine.defaults.eos_token_ids == tuple(config["eos_token_id"])


def test_default_answer_ends_by_itself(engine):
    answer = engine.generate("What is the capital of France?", chat=True)
    assert answer.finish_reason == "stop"
