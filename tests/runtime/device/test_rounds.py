"""An answer's rounds from a run, as the stream takes them: stop strings, errors, lengths."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
from toy_run import Toy, answer, moved

from hybridspec.errors import HybridSpecError
from hybridspec.kernels.length.rule import Rule
from hybridspec.model.target import PassOutput
from hybridspec.policy.length import FixedLength
from hybridspec.runtime.device.rounds import DeviceRounds
from hybridspec.runtime.device.run import Run
from hybridspec.runtime.sampling import target_tokens
from hybridspec.systems import System
from hybridspec.text.stop import OutputStream

FIXED = Rule(drafts=4, length=5)
STATIC = System("static:5", FixedLength(5), "exact")


class Letters:
    """A detokenizer of one letter a token."""

    def push(self, tokens):
        return "".join(chr(65 + token) for token in tokens)

    def flush(self):
        return ""


class Answer:
    """An answer of the toy, round by round; the anchor, 11, is its first token."""

    def __init__(self, *, plan=(2,), rounds=4, most=60, launcher="loop", eos=(), **params) -> None:
        self.toy = Toy(FIXED, plan=plan, rounds=rounds)
        run = Run(self.toy.round, launcher)
        runs = SimpleNamespace(
            target=SimpleNamespace(device=torch.device("cpu")), drafter=None,
            memory=self.toy.memory, of=lambda system, sequence: run, halt=run.halt,
        )  # fmt: skip
        self.rounds = DeviceRounds(runs, STATIC)
        self.sequence = self.toy.sequence(**params)
        self.output = OutputStream(Letters(), self.sequence.params, eos, most)
        self.tokens, self.stats, self.text = [], [], ""
        self.reason, self.most = None, most

    def step(self):
        left = self.most - len(self.tokens)
        emission, kept, stats = self.rounds.run(self.sequence, self.output, left)
        self.tokens += kept
        self.text += emission.text
        self.stats.append(stats)
        self.reason = emission.finish_reason

    def whole(self):
        while self.reason is None:
            self.step()
        return self

    def assert_state_of_its_tokens(self):
        h = 7
        for token in [11, *self.tokens[:-1]]:
            h = moved(h, token)
        assert self.toy.target.h == h
        assert self.sequence.slot.length == 5 + len(self.tokens)
        assert self.sequence.anchor == self.tokens[-1]
        assert float(self.toy.ring_state.flatten()[0]) == 5 + len(self.tokens)


@pytest.mark.parametrize("launcher", ["loop", "eager"])
@pytest.mark.parametrize("last", range(14))
def test_a_stop_string_ends_the_answer_wherever_the_device_is(last, launcher):
    """Rounds of three tokens, slices of two rounds; the string ends at every place of both."""
    expected = answer(7, 11, 60)
    text = Letters().push(expected)
    ours = Answer(stop=(text[: last + 1],), launcher=launcher).whole()
    assert ours.tokens == expected[: last + 1]
    assert (ours.text, ours.reason) == ("", "stop")
    assert sum(s.committed for s in ours.stats) == last + 1
    assert [s.accepted for s in ours.stats] == [2] * len(ours.stats)
    ours.assert_state_of_its_tokens()


def test_a_stop_string_before_a_stop_id_of_the_same_round():
    """The device ended at the id, two tokens further."""
    expected = answer(7, 11, 60)
    first = [i for i, token in enumerate(expected) if token not in expected[:i] and i % 3 == 2][1]
    ours = Answer(stop=(Letters().push(expected[first - 1 : first]),), eos=(expected[first],))
    ours.whole()
    assert ours.tokens == expected[:first]
    ours.assert_state_of_its_tokens()


@pytest.mark.parametrize("most", [1, 2, 3, 4, 7])
def test_an_answer_without_a_stop_ends_with_its_room(most):
    ours = Answer(most=most).whole()
    assert (ours.tokens, ours.reason) == (answer(7, 11, most), "length")
    ours.assert_state_of_its_tokens()


def test_a_stop_id():
    expected = answer(7, 11, 60)
    ours = Answer(eos=(expected[6],)).whole()
    assert (ours.tokens, ours.reason) == (expected[: expected.index(expected[6]) + 1], "stop")
    ours.assert_state_of_its_tokens()


def test_stop_ids_that_are_ignored_do_not_stop():
    ours = Answer(most=9, eos=tuple(range(61)), ignore_eos=True).whole()
    assert (ours.tokens, ours.reason) == (answer(7, 11, 9), "length")


def test_a_damaged_row_is_told_as_the_host_tells_it():
    ours = Answer()
    ours.toy.target.broken = 1
    ours.step()
    with pytest.raises(HybridSpecError, match="The logits at position 10 have the maximum inf"):
        ours.step()
    assert not ours.toy.ring.words.any()


def test_a_length_without_a_stage_is_told():
    ours = Answer(launcher="switch")
    draft = ours.toy.round.draft

    def wrong():
        draft()
        ours.toy.memory.numbers.verified.fill_(18)

    ours.toy.round.draft = wrong
    with pytest.raises(HybridSpecError, match="for which there is no recording"):
        ours.step()


def test_an_error_of_the_host_halts_the_run(monkeypatch):
    ours = Answer()
    ours.step()
    monkeypatch.setattr(ours.output, "push", lambda tokens: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        ours.step()
    assert not ours.toy.ring.words.any()
    assert not ours.toy.ring.abort.any()


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_the_first_token_is_drawn_by_the_kernel(seed):
    ours = Answer(temperature=1.0, top_p=0.9)
    ours.sequence.seed = seed
    logits = torch.randn(1, 61, generator=torch.Generator().manual_seed(seed))
    token = ours.rounds.first_token(ours.sequence, PassOutput(logits, None))
    assert token == int(target_tokens(logits, torch.tensor([5]), ours.sequence.params, seed)[0])
    assert ours.sequence.anchor == token


def test_a_first_token_without_a_finite_logit():
    ours = Answer(temperature=1.0)
    logits = torch.full((1, 61), float("nan"))
    with pytest.raises(HybridSpecError, match="The logits at position 5 have the maximum nan"):
        ours.rounds.first_token(ours.sequence, PassOutput(logits, None))
