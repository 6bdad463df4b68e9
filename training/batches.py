"""Rows on the device, in batches of one token count: rows start at position 0, padded."""

from __future__ import annotations

import lzma
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

LENGTHS = (96, 128, 192, 256, 384, 512, 768, 1024, 1536)
TOKENS = 61440  # divides by every length
CONTEXT_WEIGHT = 0.1


@dataclass
class Rows:
    """Tokens of all rows end to end on one device, with each row's place, category and kind."""

    ids: Tensor
    mask: Tensor
    start: Tensor
    size: np.ndarray
    category: np.ndarray
    chat: np.ndarray
    names: list[str]

    def pick(self, rows: np.ndarray, length: int) -> tuple[Tensor, Tensor]:
        """Tokens [n, length] (-1 is padding) and mask [n, length] of some rows."""
        at = torch.as_tensor(rows, device=self.ids.device)
        offset = torch.arange(length, device=self.ids.device)
        sizes = torch.as_tensor(self.size[rows].astype(np.int64), device=self.ids.device)
        inside = offset < sizes[:, None]
        index = (self.start[at][:, None] + offset).clamp(max=len(self.ids) - 1)
        ids = torch.where(inside, self.ids[index].long(), -1)
        return ids, torch.where(inside, self.mask[index], 0)


def unpack(path: Path, size: int) -> bytes:
    """The first bytes of an xz file, or of its unpacked twin where there is one."""
    if (plain := path.with_suffix(".bin")).exists():
        with plain.open("rb") as file:
            return file.read(size)
    with lzma.open(path) as packed:
        return packed.read(size)


def load_rows(folder: Path, device: str, part: float = 1.0) -> Rows:
    """Read the files that `training.data` wrote."""
    info = np.load(folder / "rows.npz")
    count = int(len(info["size"]) * part)
    size = info["size"][:count].astype(np.int64)
    total = int(size.sum())
    ids = np.frombuffer(unpack(folder / "tokens.xz", 2 * total), np.uint16).astype(np.int16)
    mask = np.frombuffer(unpack(folder / "mask.xz", total), np.uint8)
    start = np.concatenate([[0], np.cumsum(size)[:-1]])
    return Rows(
        torch.from_numpy(ids).to(device), torch.from_numpy(mask.copy()).to(device),
        torch.from_numpy(start).to(device), size, info["category"][:count], info["chat"][:count],
        [str(n) for n in info["names"]],
    )  # fmt: skip


def bucket(size: int) -> int:
    """The smallest length that holds a row."""
    return next(n for n in LENGTHS if size <= n)


def batches(
    rows: Rows, chosen: np.ndarray, rng: np.random.Generator, tokens: int = TOKENS
) -> Iterator[tuple[np.ndarray, int]]:
    """One epoch of (row indices, length); every batch has `tokens` places."""
    where = np.searchsorted(LENGTHS, rows.size[chosen])
    out = []
    for i, length in enumerate(LENGTHS):
        mine = rng.permutation(chosen[where == i])
        n = max(1, tokens // length)
        for j in range(0, len(mine), n):
            part = mine[j : j + n]
            if len(part) < n:
                part = np.concatenate([part, rng.choice(mine, n - len(part))])
            out.append((part, length))
    for k in rng.permutation(len(out)):
        yield out[k]


def shifted(ids: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    """Labels and loss weights of next-token prediction."""
    labels = torch.cat([ids[:, 1:], torch.zeros_like(ids[:, :1])], 1).clamp(min=0)
    nxt = torch.cat([mask[:, 1:], torch.zeros_like(mask[:, :1])], 1)
    weights = (nxt == 2).float() + CONTEXT_WEIGHT * (nxt == 1).float()
    return labels, weights
