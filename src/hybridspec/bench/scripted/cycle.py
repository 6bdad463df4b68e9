"""Which token follows which: one cycle through the vocabulary, and the factor that tokens share.

Tokens outside the cycle (stop, mask, padding) follow themselves, and no other token leads to them.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import torch
from torch import Tensor

BACK = 8  # a token shares the factor of one of so many before it, if of any


@dataclass(frozen=True, eq=False)
class Cycle:
    """order [n] int64, the tokens in turn; place [V] int64, where in `order` a token stands, -1 for
    a token outside."""

    order: Tensor
    place: Tensor

    @classmethod
    def random(cls, vocabulary: int, outside: Collection[int], generator: torch.Generator) -> Cycle:
        """A random cycle through all tokens but those outside, on the generator's device."""
        device = generator.device
        inside = torch.ones(vocabulary, dtype=torch.bool, device=device)
        inside[torch.tensor(sorted(outside), dtype=torch.int64, device=device)] = False
        tokens = inside.nonzero()[:, 0]
        shuffled = torch.randperm(len(tokens), generator=generator, device=device)
        order = tokens[shuffled]
        place = torch.full((vocabulary,), -1, device=device)
        place[order] = torch.arange(len(order), device=device)
        return cls(order, place)

    def __len__(self) -> int:
        return len(self.order)

    def run(self, place: int, count: int) -> Tensor:
        """[count] tokens in turn from a place on."""
        places = torch.arange(place, place + count, device=self.order.device)
        return self.order[places % len(self)]

    def known(self, anchor: int, count: int) -> Tensor:
        """[count] tokens that follow an anchor of the cycle."""
        return self.run(int(self.place[anchor]) + 1, count)

    def successors(self) -> Tensor:
        """[V] int64: the token after each."""
        after = torch.arange(len(self.place), device=self.place.device)
        after[self.order] = self.order.roll(-1)
        return after

    def centres(self, copied: float, generator: torch.Generator) -> Tensor:
        """[V] int64: the token whose factor each has.

        Along the cycle, a token takes with probability `copied` that of one of the BACK before it,
        and else its own. Who copies from whom is drawn at once; each token then looks twice as far
        up its line of ancestors in every step, so that the longest line takes log2(n) of them.
        """
        n, device = len(self), self.order.device
        places = torch.arange(n, device=device)
        back = torch.randint(1, BACK + 1, (n,), generator=generator, device=device)
        copies = torch.rand(n, generator=generator, device=device) < copied
        ancestor = torch.where(copies & (back <= places), places - back, places)
        for _ in range(n.bit_length()):
            ancestor = ancestor[ancestor]
        centre = torch.arange(len(self.place), device=device)
        centre[self.order] = self.order[ancestor]
        return centre
