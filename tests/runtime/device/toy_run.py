"""Passes of a toy in place of a model's, so that runs of many rounds take little time.

The toy's state is a number h in the slot's GDN states: a token moves it to (3 h + token + 1) mod
101, and the next token is h mod 61. So a token too many or too few in the state changes everything
that follows. Its drafter knows the answer and errs where a plan says.
"""

from __future__ import annotations

from collections.abc import Sequence as Many
from types import SimpleNamespace

import torch

from builders import target_config
from hybridspec.core import SamplingParams
from hybridspec.kernels.length.rule import Rule
from hybridspec.kernels.linear.config import ROWS
from hybridspec.runtime.device.memory import Memory
from hybridspec.runtime.device.passes import Passes
from hybridspec.runtime.device.ring import Ring
from hybridspec.runtime.device.round import Plan, Round
from hybridspec.runtime.round import Sequence
from hybridspec.runtime.state import TargetState

CPU = torch.device("cpu")
VOCABULARY, MODULUS = 61, 101
CONFIG = target_config(
    vocab_size=VOCABULARY, hidden_size=16, layer_types=("linear_attention", "full_attention"),
    num_attention_heads=1, num_key_value_heads=1, head_dim=16, linear_num_key_heads=1,
    linear_num_value_heads=1,
)  # fmt: skip
RIGHT = 99  # in a plan: no error in this round


def moved(h: int, token: int) -> int:
    """The state after a token."""
    return (3 * h + token + 1) % MODULUS


def answer(h: int, anchor: int, count: int) -> list[int]:
    """What plain decoding says after an anchor."""
    tokens = []
    for _ in range(count):
        h = moved(h, anchor)
        anchor = h % VOCABULARY
        tokens.append(anchor)
    return tokens


class ToyTarget:
    """Verifies and commits as `TargetPass` does, the lengths read on the host."""

    def __init__(self, slot, memory: Memory) -> None:
        self.slot, self.numbers, self.inputs = slot, memory.numbers, memory.answer.tokens
        logits = torch.zeros(ROWS, VOCABULARY)
        routed = SimpleNamespace(ids=torch.zeros(ROWS, 2, dtype=torch.int32))
        self.buffers = SimpleNamespace(logits=logits, routed=routed)
        self.recurrence = SimpleNamespace(begin=lambda slot: None, committed=lambda slot, m: None)
        self.verified: list[int] = []
        self.looked = 0
        self.broken: int | None = None  # the verification whose second row has no finite logit
        self._pending: list[int] = []

    @property
    def h(self) -> int:
        """The committed state."""
        return int(self.slot.checkpoint.flatten()[0])

    def stage0(self) -> None:
        self.looked = int(self.numbers.looked)

    def stage1(self) -> None:
        assert int(self.numbers.verified) <= self.looked or int(self.numbers.damaged)
        self.unsplit()

    def unsplit(self) -> None:
        h, w = self.h, int(self.numbers.verified)
        self._pending = []
        self.buffers.logits.fill_(float("nan"))  # rows beyond w mean nothing
        for row, token in enumerate(self.inputs[:w].tolist()):
            h = moved(h, token)
            self._pending.append(h)
            self.buffers.logits[row] = 0
            self.buffers.logits[row, h % VOCABULARY] = 9
        if len(self.verified) == self.broken:
            self.buffers.logits[1, 5] = float("inf")
        self.verified.append(w)

    def commit(self) -> None:
        m = int(self.numbers.kept)
        if m:
            self.slot.checkpoint.fill_(self._pending[m - 1])


class ToyDrafter:
    """Proposes the toy's own answer with one planted error a round, and keeps count of features."""

    def __init__(self, slot, memory: Memory, anchor: torch.Tensor, target: ToyTarget) -> None:
        self.slot, self.memory, self.anchor, self.target = slot, memory, anchor, target
        self.plan: Many[int] = (RIGHT,)
        self.calls = 0
        self.blocks: list[int] = []

    def propose(self, *, scored: bool) -> None:
        numbers, tokens = self.memory.numbers, self.memory.answer.tokens
        assert int(numbers.place) == int(numbers.position)
        self.blocks.append(int(numbers.block))
        known = answer(self.target.h, int(self.anchor), ROWS - 1)
        right = self.plan[self.calls % len(self.plan)]
        self.calls += 1
        if right < len(known):
            known[right] = (known[right] + 1) % VOCABULARY
        tokens[0] = self.anchor[0]
        tokens[1:] = torch.tensor(known)

    def extend(self) -> None:
        """The ring holds the count of tokens in the context."""
        numbers = self.memory.numbers
        if int(numbers.added):
            assert int(numbers.held) == int(self.slot.ring.flatten()[0])
            self.slot.ring.fill_(float(int(numbers.held) + int(numbers.added)))


class Toy:
    """A round of the toy, with slots for one sequence after another."""

    def __init__(self, rule: Rule, *, rounds: int = 4, plan: Many[int] = (), split: bool = True):
        """rounds: rows of the ring. plan: drafts to get right, round by round."""
        self.state = TargetState(CONFIG, 64, joint=True)
        self.ring_state = torch.zeros(2, 1, 1, 8, 4)
        self.memory = Memory.empty(VOCABULARY, CPU)
        self.ring = Ring(rounds, CPU)
        self.target = ToyTarget(self.state.slot(), self.memory)
        self.drafter, anchor = None, self.memory.answer.tokens[:1]
        if plan:
            anchor = torch.zeros(1, dtype=torch.int64)
            slot = SimpleNamespace(ring=self.ring_state, length=0)
            self.drafter = ToyDrafter(slot, self.memory, anchor, self.target)
            self.drafter.plan = plan
        passes = Passes(self.target, self.drafter, anchor)
        self.round = Round(Plan(rule, False, split), passes, self.memory, self.ring, early=False)

    def sequence(self, length: int = 5, h: int = 7, anchor: int = 11, **params) -> Sequence:
        """A sequence of so many tokens whose state is h."""
        slot = self.state.slot()
        slot.checkpoint.fill_(float(h))
        slot.length = length
        self.ring_state.fill_(float(length))
        return Sequence(slot, None, SamplingParams(**params), 0, anchor=anchor)
