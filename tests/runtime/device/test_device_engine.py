"""Rounds on the device against the host's, `runtime/round.py`, which are the law: the same kernels
under both, so tokens, figures and every bit of the committed state must be equal."""

from __future__ import annotations

from collections.abc import Sequence as Many
from functools import partial

import pytest
import torch

from builders import drafter_config, random_drafter, random_target, target_config
from hybridspec.checkpoint import GenerationConfig
from hybridspec.core import Proposal, SamplingParams
from hybridspec.engine import Engine
from hybridspec.policy.acceptance import AcceptanceModel, IsotonicCurves
from hybridspec.policy.hybrid import ThroughputPolicy
from hybridspec.policy.objective import CorrectionTables
from hybridspec.runtime.check import committed
from hybridspec.runtime.device.ring import Ring
from hybridspec.runtime.device.round import Round
from hybridspec.runtime.launched import LaunchedTarget
from hybridspec.runtime.launched_drafter import LaunchedDrafter
from hybridspec.runtime.prefix.cuts import Cuts
from hybridspec.stream import Stream
from hybridspec.systems import System

# As small as a model can be that has every kind of layer: kernels are interpreted here.
TARGET = target_config(
    vocab_size=48, hidden_size=16, layer_types=("linear_attention", "full_attention"),
    num_attention_heads=1, num_key_value_heads=1, head_dim=16, linear_num_key_heads=1,
    linear_num_value_heads=1, num_experts=4, num_experts_per_tok=2, moe_intermediate_size=16,
    shared_expert_intermediate_size=16,
)  # fmt: skip
DRAFTER = drafter_config(
    TARGET, intermediate_size=16, layer_types=("sliding_attention",), num_attention_heads=1,
    num_key_value_heads=1, target_layer_ids=(0, 1), sliding_window=8,
)  # fmt: skip
PROMPT = [5, 11, 40, 2, 7]
GREEDY = SamplingParams(max_tokens=6)
SEEDED = SamplingParams(max_tokens=6, temperature=0.9, top_p=0.9, seed=3)
PLAN = (2, 0, 5, 1)  # drafts that are right, round by round


class Planned(LaunchedDrafter):
    """Says what is known to follow, with an error where the plan has one. The real block runs
    first, so scores and caches are the drafter's own."""

    known: Many[int] = ()
    calls = 0

    def says(self, place: int, vocabulary: int) -> torch.Tensor:
        """Drafts 1..15 after the token at a place, in the next round of the plan."""
        drafts = list(self.known[place + 1 : place + 16])
        drafts += [0] * (15 - len(drafts))
        wrong = PLAN[self.calls % len(PLAN)]
        self.calls += 1
        drafts[wrong] = (drafts[wrong] + 1) % vocabulary
        return torch.tensor(drafts)

    def propose(self, target, anchor, slot, drafts, *, scored=False) -> Proposal:
        made = super().propose(target, anchor, slot, drafts, scored=scored)
        tokens = self.says(slot.length, TARGET.vocab_size)[:drafts]
        return Proposal(tokens, made.confidence, made.entropy)


def planned(launcher: str, eos: tuple[int, ...] = (), **options) -> Engine:
    target = LaunchedTarget(random_target(TARGET))
    drafter = Planned(random_drafter(DRAFTER), target)
    defaults = GenerationConfig(eos_token_ids=eos)
    memory = "eager" if launcher == "host" else launcher  # on a CPU the host's needs no such one
    made = Engine(target, drafter, defaults=defaults, max_context=64, launcher=memory, **options)

    def replace(anchor, position, answer):
        answer.tokens[1:] = drafter.says(int(position), TARGET.vocab_size)

    made._launching.runs.form = partial(Round, replace=replace)
    if launcher == "host":
        made._launching.runs = None
    return made


def hybrid() -> System:
    """The paper's policy with numbers that make it choose, and correct, differently by round."""
    g = torch.Generator().manual_seed(4)
    x, y = (torch.rand(15, 6, generator=g).sort(1).values for _ in range(2))
    acceptance = AcceptanceModel(IsotonicCurves(x, y), torch.tensor([1.5, 0.5, 0, 0, 0, 0]))
    cost = torch.cat((torch.zeros(1), 0.1 + 0.3 * torch.rand(16, generator=g))).cumsum(0)
    tables = CorrectionTables(0.2, 0.05, 3 * torch.rand(16), 3 * torch.rand(16, 3, generator=g))
    return System("hybrid", ThroughputPolicy(acceptance, cost, 1.3, tables, 8), "exact")


def said(engine: Engine, params: SamplingParams, system, known: Many[int], **options) -> Stream:
    engine.drafter.known, engine.drafter.calls = known, 0
    stream = engine.stream(PROMPT, params, system=system, **options)
    for _ in stream:
        pass
    return stream


def everything(engine: Engine, stream: Stream) -> dict[str, torch.Tensor]:
    """The committed state, the drafter's context and the sequence's own numbers."""
    sequence = stream._sequence
    with torch.inference_mode():
        stream._rounds.catch_up(sequence)
    state = {name: part.clone() for name, part in committed(sequence.slot).items()}
    lengths = [sequence.slot.length, sequence.anchor]
    if stream._rounds.drafter is not None:
        context, ring = sequence.drafter_slot, sequence.drafter_slot.ring.shape[-2]
        seen = torch.arange(max(0, context.length - 8), context.length) % ring
        state["context"] = context.ring[..., seen, :].clone()
        lengths.append(context.length)
    return state | {"lengths": torch.tensor(lengths)}


@pytest.fixture(scope="module")
def known() -> dict[bool, list[int]]:
    """The prompt and its answer, greedy and seeded, by plain torch."""
    engine = Engine(random_target(TARGET), max_context=64)
    return {
        params.greedy: [*PROMPT, *engine.generate(PROMPT, params, system="ar").token_ids]
        for params in (GREEDY, SEEDED)
    }


@pytest.fixture(scope="module")
def hosted() -> Engine:
    return planned("host")


def assert_equal(ours: Engine, mine: Stream, law: Engine, theirs: Stream) -> None:
    a, b = mine.result(), theirs.result()
    assert a.token_ids == b.token_ids
    assert a.finish_reason == b.finish_reason
    assert a.stats.rounds == b.stats.rounds
    state = everything(law, theirs)
    for name, part in everything(ours, mine).items():
        assert torch.equal(part, state[name]), name


MINUTES = pytest.mark.full  # interpreted
CASES = [
    pytest.param("ar", GREEDY, "loop", marks=MINUTES),
    ("static:3", SEEDED, "switch"),
    pytest.param("dflash", GREEDY, "loop", marks=MINUTES),
    pytest.param("replayssm", SEEDED, "switch", marks=MINUTES),
    pytest.param("static:4:block", GREEDY, "eager", marks=MINUTES),
    ("hybrid", GREEDY, "switch"),
    pytest.param("hybrid", SEEDED, "loop", marks=MINUTES),
]


@pytest.mark.parametrize(("name", "params", "launcher"), CASES)
def test_a_device_s_rounds_are_the_host_s(name, params, launcher, known, hosted):
    system = hybrid() if name == "hybrid" else name
    ours = planned(launcher)
    mine = said(ours, params, system, known[params.greedy])
    theirs = said(hosted, params, system, known[params.greedy])
    assert type(mine._rounds).__name__ == "DeviceRounds"
    assert_equal(ours, mine, hosted, theirs)
    assert list(mine.result().token_ids) == known[params.greedy][len(PROMPT) :]


class Letters:
    """A tokenizer that gives a letter a token, and its own detokenizer."""

    eos_ids = ()

    def detokenizer(self):
        return self

    def push(self, tokens):
        return "".join(chr(0x100 + token) for token in tokens)

    def flush(self):
        return ""


@pytest.mark.parametrize(
    ("name", "launcher"),
    [("static:4", "loop"), pytest.param("static:4:replay", "switch", marks=MINUTES)],
)
def test_a_stop_string_leaves_what_the_host_leaves(name, launcher, known, hosted, monkeypatch):
    """It ends with the second round; the device runs on to the answer's end, in one launch."""
    text = Letters().push(known[True][len(PROMPT) :])
    params = SamplingParams(max_tokens=8, stop=(text[3:5],))
    ours = planned(launcher)
    ours._launching.runs.ring = Ring(16, torch.device("cpu"))
    for engine in (ours, hosted):
        monkeypatch.setattr(engine, "tokenizer", Letters())
    mine = said(ours, params, name, known[True])
    theirs = said(hosted, params, name, known[True])
    assert mine.result().text == text[:3]
    assert len(mine.result().stats.rounds) == 2
    assert len(mine.result().token_ids) == 5
    assert_equal(ours, mine, hosted, theirs)


def test_an_answer_cut_short_leaves_the_engine_as_new(known):
    """Closed and broken, each after a round; `tests/gpu` has more."""
    ours = planned("eager")
    for end in ("close", "break"):
        ours.drafter.known, ours.drafter.calls = known[True], 0
        stream = ours.stream([3, 9, 1], GREEDY, system="static:3")
        pieces = [next(stream), next(stream)]
        if end == "close":
            stream.close()
            assert stream.result().token_ids == sum((p.token_ids for p in pieces), ())
            assert not ours._launching.runs.ring.words.any()
        if end == "break":
            stream._output.push = lambda tokens: 1 / 0
            with pytest.raises(ZeroDivisionError):
                next(stream)
            assert stream.result().finish_reason == "abort"
        del stream
    answer = said(ours, GREEDY, "static:16", known[True]).result()
    assert list(answer.token_ids) == known[True][len(PROMPT) :]


@pytest.mark.parametrize(
    ("name", "launcher"),
    [
        ("static:3", "eager"),
        pytest.param("replayssm", "loop", marks=MINUTES),
        pytest.param("static:4:block", "switch", marks=MINUTES),
    ],
)
def test_a_run_begins_from_a_kept_state(name, launcher, known):
    ours = planned(launcher, prefix_memory=1 << 20)
    ours._prefixes.cuts = Cuts(2)
    cold = said(ours, GREEDY, name, known[True], reuse="none")
    law = everything(ours, cold)
    for cached in (0, 4):
        warm = said(ours, GREEDY, name, known[True])
        assert type(warm._rounds).__name__ == "DeviceRounds"
        assert warm.result().stats.cached_tokens == cached
        assert warm.result().token_ids == cold.result().token_ids
        assert warm.result().stats.rounds == cold.result().stats.rounds
        for part, tensor in everything(ours, warm).items():
            assert torch.equal(tensor, law[part]), part


@MINUTES
def test_an_end_is_kept_where_a_stop_string_was_found_late(known, hosted, monkeypatch):
    """The device was further: what is kept is the state of the kept tokens."""
    text = Letters().push(known[True][len(PROMPT) :])
    params = SamplingParams(max_tokens=8, stop=(text[3:5],))
    ours = planned("loop", prefix_memory=1 << 20)
    ours._launching.runs.ring = Ring(16, torch.device("cpu"))
    monkeypatch.setattr(hosted, "tokenizer", Letters())
    monkeypatch.setattr(ours, "tokenizer", Letters())
    said(ours, params, "static:4", known[True], reuse="near")
    theirs = said(hosted, params, "static:4", known[True])
    end = max(ours._prefixes.store.nodes(), key=lambda node: node.stop)
    assert end.stop == len(PROMPT) + len(theirs.result().token_ids) - 1
    assert torch.equal(end.point.gdn, theirs._sequence.slot.gdn)
    assert torch.equal(end.rows.keys, theirs._sequence.slot.keys[:, :, : end.stop])


def test_an_answer_cut_short_keeps_no_end(known):
    """The device may be ahead of what was read."""
    ours = planned("loop", prefix_memory=1 << 20)
    stream = said_until(ours, 2, known[True])
    stream.close()
    assert list(ours._prefixes.store.nodes()) == []


def said_until(engine: Engine, pieces: int, known: Many[int]) -> Stream:
    engine.drafter.known, engine.drafter.calls = known, 0
    stream = engine.stream(PROMPT, GREEDY, system="static:3", reuse="near")
    for _ in range(pieces):
        next(stream)
    return stream
