"""The sampling kernels: against their law, and how long they take."""

from __future__ import annotations

import torch
from torch import Tensor

from hybridspec.core import SamplingParams
from hybridspec.kernels.bench.checks import same
from hybridspec.kernels.bench.setting import Setting
from hybridspec.kernels.linear.config import ROWS
from hybridspec.kernels.sampling import naive
from hybridspec.kernels.sampling.adjust import Adjustment, adjust
from hybridspec.kernels.sampling.config import SampleConfig
from hybridspec.kernels.sampling.naive import Penalties
from hybridspec.kernels.sampling.request import Request, Scratch
from hybridspec.kernels.sampling.sample import sample
from hybridspec.runtime.sampling import target_tokens

REQUESTS = {
    "greedy": SamplingParams(),
    "temperature": SamplingParams(temperature=1.0),
    "top_k 20, top_p 0.95": SamplingParams(temperature=0.6, top_k=20, top_p=0.95),
    "top_k 20, top_p 0.95, min_p 0.05": SamplingParams(
        temperature=1.0, top_k=20, top_p=0.95, min_p=0.05
    ),
    "min_p 0.05": SamplingParams(temperature=1.0, min_p=0.05),
    "top_p 0.95": SamplingParams(temperature=1.0, top_p=0.95),
}
SLOW = {  # many candidates for one program: how bad is it?
    "top_k 1000": SamplingParams(temperature=1.0, top_k=1000),
    "top_p 0.95, flat": SamplingParams(temperature=1.0, top_p=0.95),
}
CUTS = [
    SampleConfig(4096, 256, 256, 8),
    SampleConfig(2048, 128, 128, 4),
    SampleConfig(1024, 256, 64, 4),
]
HEAD = 50  # likely tokens of a row
SEED = 2**64 - 3


def logits_like(s: Setting, peaked: bool = True) -> Tensor:
    """[16, V] fp32 as a model's: a wide bulk and a few likely tokens far above it, or flat."""
    x = s.normal(ROWS, s.shape.vocabulary, dtype=torch.float32, size=2.5 if peaked else 1.0)
    if peaked:
        head = torch.randint(s.shape.vocabulary, (HEAD,), generator=s.generator, device=s.device)
        x[:, head] = 20 + s.normal(ROWS, HEAD, dtype=torch.float32, size=3.0)
    return x


class Sampler:
    """Everything a call takes but the logits."""

    def __init__(self, s: Setting, params: SamplingParams, config: SampleConfig | None) -> None:
        self.s, self.config = s, config
        self.request = Request.empty(s.device)
        self.request.set(params, SEED, 2**33)
        self.scratch = Scratch.empty(s.shape.vocabulary, s.device, config)
        self.tokens = s.empty(ROWS, dtype=torch.int64)
        self.bad = s.empty(ROWS, dtype=torch.int32)

    def __call__(self, logits: Tensor, length: Tensor) -> None:
        """Draw the first `length` rows."""
        sample(logits, length, self.request, self.tokens, self.bad, self.scratch, self.config,
               **self.s.options)  # fmt: skip


def check_sampling(s: Setting) -> None:
    """Tokens against the law on the CPU, but for those so close to a border that a rounding
    decides; and their bits at other lengths and cuts."""
    logits, positions = logits_like(s), 2**33 + torch.arange(ROWS)
    on_cpu, few = logits.cpu(), min(5, ROWS)
    for name, params in REQUESTS.items():
        ours = Sampler(s, params, None)
        ours(logits, s.scalar(ROWS))
        law = target_tokens(on_cpu, positions, params, SEED)
        wrong = ours.tokens.cpu() != law
        if not params.greedy:
            close = naive.undecided(on_cpu, positions, params, SEED, naive.ERROR)
            close_rows, wrong_rows = int(close.sum()), int(wrong.sum())
            s.keep({"name": f"sample {name}", "close": close_rows, "of them other": wrong_rows})
            wrong &= ~close
        s.keep({"name": f"check sample {name}", "ok": not bool(wrong.any())})
        for config in s.cuts(CUTS):
            theirs = Sampler(s, params, config)
            theirs(logits, s.scalar(few))
            same(s, f"sample {name}, {few} rows, {config}", theirs.tokens[:few], ours.tokens[:few])


def time_sampling(s: Setting) -> None:
    """Requests at 16 rows and at 1; the slow ones; penalties."""
    cuda = s.device.type == "cuda"
    nbytes = ROWS * s.shape.vocabulary * 4
    copies = [logits_like(s) for _ in range(s.copies(nbytes))]
    cuts = [None, *s.cuts(CUTS)]
    for rows in (ROWS, 1) if cuda else (1,):
        for name, params in REQUESTS.items():
            for cut in cuts:
                _time(s, f"sample {name}", params, cut, copies, rows)
        _time_penalties(s, copies, rows)
    for name, params in SLOW.items() if cuda else ():
        given = [logits_like(s, peaked=False)] if "flat" in name else copies
        _time(s, f"sample {name}", params, None, given, ROWS)


def _time(
    s: Setting, name: str, params: SamplingParams, cut: SampleConfig | None, copies: list[Tensor],
    rows: int,
) -> None:  # fmt: skip
    sampler, length = Sampler(s, params, cut), s.scalar(rows)
    sampler(copies[0], length)
    calls = [lambda x=x: sampler(x, length) for x in copies]
    s.timed(f"{name}, {rows} rows", cut or "default", calls, rows * copies[0][0].nbytes)


def _time_penalties(s: Setting, copies: list[Tensor], rows: int) -> None:
    vocabulary, length = s.shape.vocabulary, s.scalar(rows)
    inputs = torch.arange(ROWS, device=s.device)
    allowed = torch.full((ROWS, -(-vocabulary // 32)), -1, dtype=torch.int32, device=s.device)
    for name, penalties, mask in [
        ("nothing", Penalties(), None),
        ("penalties", Penalties(1.1, 0.5, 0.1), None),
        ("penalties and a mask", Penalties(1.1, 0.5, 0.1), allowed),
    ]:
        what = Adjustment.empty(vocabulary, s.device)
        what.set(penalties, {}, inputs, inputs[:8])
        calls = [
            lambda x=x, what=what, mask=mask: adjust(x, length, inputs, what, mask, **s.options)
            for x in copies
        ]
        calls[0]()
        # the logits are read and written, the counts of both kinds read once
        moved = 0 if name == "nothing" else 2 * rows * copies[0][0].nbytes + 8 * vocabulary
        s.timed(f"adjust {name}, {rows} rows", "default", calls, moved)
