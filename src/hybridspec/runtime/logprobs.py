"""Log-probabilities of tokens, out of the rows that they were taken from."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from hybridspec.core import TokenLogprobs, prefill_chunk
from hybridspec.errors import RequestError
from hybridspec.model.target import Target
from hybridspec.runtime.state import TargetSlot

ROWS = 64  # of a prompt whose logits exist at once: 64 MB at V = 248,320


def token_logprobs(logits: Tensor, tokens: Sequence[int], top: int) -> tuple[TokenLogprobs, ...]:
    """One entry a token. An entry depends on no other row, to the bit.

    Args:
        logits: [n, V], as the model gives them.
        tokens: n ids, one a row.
        top: how many of the most likely tokens each entry lists; at most V are.
    """
    if not len(tokens):
        return ()
    ids = torch.tensor(tokens, device=logits.device)[:, None]
    # Row by row: in what order a device adds up a row depends on how many rows there are.
    rows = logits.split(1)
    all_of = torch.cat([row.logsumexp(-1, keepdim=True) for row in rows])
    chosen = (logits.gather(1, ids) - all_of)[:, 0].tolist()
    likely = [row.topk(min(top, logits.shape[1])) for row in rows]  # so does the order of ties
    values = torch.cat([each.values for each in likely]) - all_of
    indices = torch.cat([each.indices for each in likely])
    lists = zip(indices.tolist(), values.tolist(), strict=True)
    tops = [tuple(zip(*row, strict=True)) for row in lists]
    return tuple(map(TokenLogprobs, tokens, chosen, tops))


@torch.inference_mode()
def prompt_logprobs(
    target: Target,
    slot: TargetSlot,
    ids: Sequence[int],
    top: int,
    wanted: Callable[[], bool] = lambda: True,
) -> tuple[TokenLogprobs | None, ...]:
    """Of a prompt's own tokens, each after those before it; None for the first.

    Args:
        slot: an empty one, which then holds the prompt but for its last token.
        ids: [T], at least one.
        top: as in `token_logprobs`.
        wanted: asked before each part of the prompt.

    Raises:
        RequestError: it is not wanted any more.
    """
    scored: list[TokenLogprobs | None] = [None]
    inputs = torch.tensor(ids[:-1], dtype=torch.long, device=target.device)
    for part in inputs.split(prefill_chunk(target.device, target.dtype)):
        if not len(part):
            break
        if not wanted():
            raise RequestError("The scores of the prompt were given up; ask for them again.")
        for rows in target.read(part, slot).split(ROWS):
            following = ids[len(scored) : len(scored) + len(rows)]
            scored += token_logprobs(target.logits(rows), following, top)
    return tuple(scored)
