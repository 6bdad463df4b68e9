"""How the sampling kernels are cut."""

from __future__ import annotations

from dataclasses import dataclass

from hybridspec.kernels.sizes import power

LARGE = 1 << 14  # of vocabularies: above, a row fills the GPU; below, launches are what costs
GROUPS = 1024  # of a row, about: the last program goes through them in eight steps a digit


@dataclass(frozen=True, slots=True)
class SampleConfig:
    """chunk: logits of a row in one program. group: neighbours whose largest logit stands for them
    when a floor of the top k is looked for; it divides the chunk. block: candidates that the last
    program looks at in one step. All are powers of two. warps: of 32 threads."""

    chunk: int
    group: int
    block: int = 128
    warps: int = 4

    @classmethod
    def choose(cls, vocabulary: int) -> SampleConfig:
        """A cut for a vocabulary of this size.

        2,048 logits of 248,320 are 122 programs, about one for each multiprocessor of an H200, and
        16 logits a thread. The k-th largest of the groups' maxima is a floor of the k-th largest
        logit, the tighter the more groups there are; a group of less than 16 would save little. A
        step of the search holds 16 sums a candidate in registers, no more than its chunk takes.
        """
        chunk, block = (2048, 128) if vocabulary > LARGE else (512, 64)
        return cls(chunk, max(16, min(256, power(vocabulary) // GROUPS)), block)

    def chunks(self, vocabulary: int) -> int:
        """Programs a row."""
        return -(-vocabulary // self.chunk)
