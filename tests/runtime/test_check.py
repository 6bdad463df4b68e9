"""The debug check: silent on a right state, loud on a wrong one."""

from __future__ import annotations

import pytest
import torch

from builders import random_target
from hybridspec.core import SamplingParams
from hybridspec.errors import HybridSpecError
from hybridspec.runtime import check
from hybridspec.runtime.state import TargetSlot, TargetState
from scripted import RIGHT, TINY, prompt_ids, run, script, scripted_engine

IDS = torch.tensor(prompt_ids(30))
PARTS = {"gdn": "GDN states", "conv": "convolution windows", "keys": "keys", "values": "values"}


@pytest.fixture(scope="module", params=[torch.float64, torch.float32, torch.bfloat16])
def target(request):
    return random_target(TINY, dtype=request.param)


@pytest.fixture
def slot(target):
    """30 tokens, committed in rounds of four."""
    slot = TargetState(TINY, 60, dtype=target.dtype).slot()
    for part in IDS.split(4):
        target.stage1(target.stage0(part, slot, "block"), len(part), slot, "block")
        slot.commit(len(part), "block")
    return slot


def test_a_right_state_passes(target, slot):
    check.check_committed(target, slot, IDS)


def test_what_lies_ahead_is_not_compared(target, slot):
    """Rows and columns past the committed ones are scratch."""
    slot.keys[:, :, 30:] = torch.nan
    slot.values[:, :, 30:] = torch.nan
    slot.conv[:, 3:] = torch.nan
    slot.z.fill_(torch.nan)
    check.check_committed(target, slot, IDS)


@pytest.mark.parametrize("value", [5.0, torch.nan])
@pytest.mark.parametrize("part", PARTS)
def test_one_wrong_number_is_found(target, slot, part, value):
    getattr(slot, part)[0, 0, 0] = value
    with pytest.raises(HybridSpecError, match=f"committed {PARTS[part]} differ"):
        check.check_committed(target, slot, IDS)


@pytest.mark.parametrize("off", [-1, 1])
def test_a_wrong_length_is_found(target, slot, off):
    slot.length += off
    with pytest.raises(HybridSpecError, match=f"holds {30 + off} tokens where 30"):
        check.check_committed(target, slot, IDS)


def test_another_text_is_found(target, slot):
    """One token of thirty replaced, and two swapped."""
    replaced, swapped = IDS.clone(), IDS.clone()
    replaced[11] += 1
    swapped[[25, 26]] = swapped[[26, 25]]
    for wrong in (replaced, swapped):
        with pytest.raises(HybridSpecError, match="differ from a fresh run"):
            check.check_committed(target, slot, wrong)


@pytest.mark.parametrize("system", ["ar", "static:5", "dflash"])
def test_the_switch_checks_every_answer(monkeypatch, system):
    """With HYBRIDSPEC_CHECK=1 answers pass, and a commit that forgets a layer does not."""
    engine, prompt = scripted_engine(), prompt_ids()
    expected = script(engine, prompt, (3, RIGHT, 0), max_tokens=20)
    monkeypatch.setenv("HYBRIDSPEC_CHECK", "1")
    params = SamplingParams(max_tokens=20)
    assert run(engine, prompt, system, params)[0].token_ids == expected
    right = TargetSlot.commit

    def forgetful(slot, m, verifier):
        kept = slot.gdn.clone()
        right(slot, m, verifier)
        slot.gdn[1] = kept[1]

    monkeypatch.setattr(TargetSlot, "commit", forgetful)
    with pytest.raises(HybridSpecError, match="GDN states differ"):
        run(engine, prompt, system, params)
    monkeypatch.setenv("HYBRIDSPEC_CHECK", "0")
    run(engine, prompt, system, params)


@pytest.mark.parametrize("value", ["0", "", None])
def test_it_is_off_by_default(monkeypatch, value):
    if value is None:
        monkeypatch.delenv("HYBRIDSPEC_CHECK", raising=False)
    else:
        monkeypatch.setenv("HYBRIDSPEC_CHECK", value)
    assert not check.enabled()
