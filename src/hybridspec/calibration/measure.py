"""What the runtime takes: a round at every length, one more token in Stage 0, one more expert.

All on the machine at hand and in one run, the variants in turn, so that a busy minute hits all of
them. Medians are over turns; a GPU is waited for before a clock is read.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import torch

from hybridspec.calibration.cost import Line, fit_line
from hybridspec.model.target import Target
from hybridspec.runtime.state import TargetSlot, W

Variant = tuple[int, int]  # verification length and drafts; (0, 0) is plain decoding


def interleaved(
    variants: Mapping[int, Callable[[], object]], turns: int, device: torch.device
) -> dict[int, float]:
    """Median ms of each variant over `turns`, all of them once a turn after one turn of warm-up."""
    spent: dict[int, list[float]] = {key: [] for key in variants}
    for turn in range(turns + 1):
        for key, run in variants.items():
            began = _now(device)
            run()
            if turn:
                spent[key].append((_now(device) - began) * 1e3)
    return {key: statistics.median(times) for key, times in spent.items()}


def _now(device: torch.device) -> float:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter()


@torch.inference_mode()
def stage0_slope(target: Target, slot: TargetSlot, *, turns: int = 40) -> Line:
    """s: ms that one more token adds to Stage 0 (paper appendix A.2), fitted over 2..W tokens.

    slot: holds a sequence, so that layer 0 works on real states; it is left as it was.
    """
    ids = torch.arange(W, device=target.device) % target.config.vocab_size

    def run(u: int) -> Callable[[], object]:
        return lambda: target.stage0(ids[:u], slot, "exact")

    ms = interleaved({u: run(u) for u in range(2, W + 1)}, turns, target.device)
    return _line(ms)


@torch.inference_mode()
def expert_slope(target: Target, *, rows: int = W, turns: int = 40, seed: int = 0) -> Line:
    """eta: ms that one more distinct expert adds to a layer at a fixed number of input rows.

    The rows' experts are drawn from the first n of a permutation, n from the experts a token has to
    as many as the rows can have. All layers run, so that no weights are found in a near cache;
    the slope is for one layer.
    """
    config = target.config
    k, generator = config.num_experts_per_tok, torch.Generator().manual_seed(seed)
    most = min(config.num_experts, rows * k)
    counts = np.unique(np.linspace(k, most, 9).astype(int)).tolist()
    x = torch.randn(rows, config.hidden_size, generator=generator)
    x = x.to(target.device, target.dtype)
    weights = torch.full((rows, k), 1 / k, device=target.device, dtype=x.dtype)

    def run(experts: torch.Tensor) -> Callable[[], object]:
        return lambda: [layer.mlp.combine(x, x, experts, weights) for layer in target.layers]

    variants = {n: run(_spread(n, rows, k, generator).to(target.device)) for n in counts}
    line = _line(interleaved(variants, turns, target.device))
    layers = len(target.layers)
    return Line(line.intercept / layers, line.slope / layers, line.r2)


def _spread(count: int, rows: int, k: int, generator: torch.Generator) -> torch.Tensor:
    """[rows, k] experts, distinct in a row, that together are exactly `count` distinct ones."""
    offsets = torch.arange(rows * k).view(rows, k)
    order = torch.randperm(count, generator=generator)
    return order[offsets % count]


def _line(ms: dict[int, float]) -> Line:
    return fit_line(np.array([*ms], float), np.array([*ms.values()], float))


def typical_rounds(samples: Mapping[Variant, Sequence[tuple[int, float]]]) -> dict[Variant, float]:
    """ms a round of each variant, from answers to the same prompts: (rounds, seconds) by variant.

    A machine may be half as fast for minutes. Since all variants of a prompt run close together,
    each is taken relative to its prompt's own level; the median of that over prompts counts, times
    the median level.
    """
    names = [*samples]
    ms = np.array([[1e3 * s / max(r, 1) for r, s in samples[name]] for name in names])
    level = np.exp(np.log(ms).mean(0))
    typical = np.median(ms / level, 1) * np.median(level)
    return dict(zip(names, typical.tolist(), strict=True))
