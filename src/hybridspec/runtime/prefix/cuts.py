"""Where prompts are cut into passes.

The bits of a state depend on where its passes began. So the rule looks at no token behind the cut
but the one that follows it: two prompts with the same beginning are cut alike in it, and a state
kept at a cut of one is, bit for bit, the state that the other would reach by itself.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import torch

from hybridspec.core import prefill_chunk

# Least tokens between a cut and one before a message. No message has fewer than the first. On a GPU
# a pass of up to a few hundred tokens takes the time of reading the weights, so that shorter ones
# would only be more of them; and a prompt that goes on from a cut runs at most so many tokens more.
SPACING, GPU_SPACING = 4, 256


@dataclass(frozen=True, slots=True)
class Cuts:
    """A cut comes `chunk` tokens after the one before it, or earlier before a token of `marks`, if
    at least `spacing` tokens lie between."""

    chunk: int
    marks: Collection[int] = frozenset()
    spacing: int = 1

    @classmethod
    def by_device(
        cls, device: torch.device, dtype: torch.dtype, marks: Collection[int] = frozenset()
    ) -> Cuts:
        """Those of a model. marks: the tokens that open a message."""
        spacing = GPU_SPACING if device.type == "cuda" else SPACING
        return cls(prefill_chunk(device, dtype), frozenset(marks), spacing)

    def of(self, ids: Sequence[int]) -> list[int]:
        """The cuts of a prompt, ascending; neither its start nor its end is one."""
        cuts: list[int] = []
        last = 0
        for place, token in enumerate(ids):
            length = place - last
            if length == self.chunk or (token in self.marks and length >= self.spacing):
                cuts.append(place)
                last = place
        return cuts
