"""What a row sees, and how attention over a cache is cut."""

from __future__ import annotations

from dataclasses import dataclass

from hybridspec.kernels.linear.config import ROWS
from hybridspec.kernels.sizes import power

# Rows of the cache in one split: so many from this row on. Short contexts need short splits to fill
# the GPU, long ones long splits to have few parts to add. Two KV heads make 336 programs at 32k.
LADDER = ((0, 64), (1024, 128), (8192, 256), (32768, 1024))


@dataclass(frozen=True, slots=True)
class Sight:
    """Which positions a row at position p sees, among those of the context and its own block.

    causal: none after p. window: only those with p - position < window; 0: all. ring: row j of the
    cache holds the newest position congruent to j modulo its rows; else row j is position j.
    """

    causal: bool = True
    window: int = 0
    ring: bool = False


PAST = Sight()  # the target's: all positions up to its own


@dataclass(frozen=True, slots=True)
class AttentionConfig:
    """tile: of query rows times heads, the M of the products. keys: in one step. group: splits
    whose parts one program adds. ladder: (row, rows a split from there on). Then Triton's options.

    All rungs of the ladder begin at multiples of the rows of a split before them, and all splits
    are multiples of `keys`.
    """

    tile: int
    keys: int
    warps: int = 4
    stages: int = 2
    group: int = 16
    ladder: tuple[tuple[int, int], ...] = LADDER

    @classmethod
    def choose(cls, heads: int, kv: int, size: int) -> AttentionConfig:
        """A cut for `heads` query heads of `size` values that share `kv` key heads.

        A tile of 16 is two rows of 8 heads: tiles without a valid row leave at once, so a short
        round pays for its own rows alone, and it was the fastest up to w = 6 at every length
        (README.md). 64 keys of 256 values are 64 KiB with their values, and 73 with what else a
        program holds: below the 99 KiB of small cards.
        """
        return cls(max(16, power(heads // kv)), 64)

    def rungs(self) -> tuple[tuple[int, int, int], ...]:
        """Of every rung: the first split, the row it begins at, and rows a split."""
        made, first = [], 0
        for i, (begin, size) in enumerate(self.ladder):
            made.append((first, begin, size))
            if i + 1 < len(self.ladder):
                first += (self.ladder[i + 1][0] - begin) // size
        return tuple(made)

    def splits(self, rows: int) -> int:
        """How many splits have the first `rows` rows of a cache."""
        first, begin, size = next(r for r in reversed(self.rungs()) if r[1] < max(1, rows))
        return first + -(-(rows - begin) // size)


@dataclass(frozen=True, slots=True)
class CombineConfig:
    """cols: columns of a head in one program. parts: read at a time. Then Triton's warps.

    32 parts of 64 columns are 8 KiB under way a program, and the next as many behind them: at a
    length of one, 16 heads of 256 columns have 64 programs and half a MiB under way.
    """

    cols: int = 64
    parts: int = 32
    warps: int = 4


@dataclass(frozen=True, slots=True)
class Cut:
    """The launch that a config makes of H heads, KV key heads of D values and a cache of rows.

    tile: M, with `shared` heads of a row beside each other, a power of two. tiles: of 16 rows.
    splits and groups: most of them.
    """

    tile: int
    shared: int
    tiles: int
    splits: int
    groups: int
    cols: int
    kv: int

    @classmethod
    def of(cls, c: AttentionConfig, heads: int, kv: int, size: int, rows: int) -> Cut:
        """Refuses no size; the tile is clipped to what 16 rows fill.

        Raises:
            ValueError: the ladder's splits are no multiples of the keys in a step.
        """
        if any(step % c.keys for _, step in c.ladder):
            raise ValueError(f"Splits {c.ladder} must be multiples of {c.keys} keys.")
        shared = power(heads // kv)
        tile = max(16, shared, min(c.tile, ROWS * shared))
        splits = c.splits(rows)
        return cls(tile, shared, ROWS * shared // tile, splits, -(-splits // c.group),
                   max(16, power(size)), kv)  # fmt: skip

    @property
    def slots(self) -> int:
        """Parts of one tile of one key head: every split's, then every group's."""
        return self.splits + self.groups

    def room(self) -> tuple[int, int]:
        """Floats and counters of the workspace."""
        parts = self.kv * self.tiles * self.slots * self.tile
        return parts * (self.cols + 2), self.kv * self.tiles * (self.groups + 1)
