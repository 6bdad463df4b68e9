"""Answers of the target itself, thousands at a time.

    python -m training.generate --target DIR --data DIR --out DIR --minutes 9

Writes a numbered file after every batch, so that training can begin with the first.

Every row begins at position 0 and takes one token a step, first its prompt's, then its own: no
padding, no separate prefill, and one CUDA graph a length. The answers train the drafter.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from tokenizers import Tokenizer
from torch import Tensor

from training.batches import Rows, load_rows
from training.export import load_target
from training.target import Shape, Target, l2, zrms
from training.tokenizer import BASE_VOCAB

END, STOP = BASE_VOCAB, BASE_VOCAB + 2  # <|endoftext|>, <|im_end|>
PERIOD, TIMES = 32, 3
CAPS = (128, 256, 512, 1024, 1216)
WEIGHTS = {"qa": 0.4, "stem": 0.2, "writing": 1.2, "math": 1.5, "coding": 1.8, "summarization": 1.3}
Work = tuple[int, np.ndarray]


class Decoder:
    """State and one step for a fixed number of rows and positions."""

    def __init__(self, model: Target, rows: int, length: int) -> None:
        self.m, s = model, model.s
        device = model.embed.device
        kv = torch.bfloat16 if device.type == "cuda" else torch.float32
        c = 2 * s.kh * s.gdn + s.vh * s.gdn
        self.conv = torch.zeros(len(s.linear), rows, 3, c, device=device)
        self.state = torch.zeros(len(s.linear), rows, s.vh, s.gdn, s.gdn, device=device)
        size = (len(s.full), 2, rows, s.kv_heads, length, s.head_dim)
        self.cache = torch.zeros(size, device=device, dtype=kv)
        self.place = torch.arange(length, device=device)
        inv = s.theta ** (-torch.arange(0, s.head_dim // 4, 2, device=device) / (s.head_dim // 4))
        self.angle = self.place[:, None].float() * inv
        self.w = {n: p.detach() for n, p in model.named_parameters()}
        gu = self.w["exp_gu"].flatten(1, 2)
        self.up = torch.cat([gu, self.w["sh_gu"], self.w["sh_gate"], self.w["router"]], 1)
        self.w_in = torch.cat([self.w[f"gdn_{n}"] for n in ("qkv", "z", "ba")], 1)
        self.w_att = torch.cat([self.w[f"att_{n}"] for n in "qkv"], 1)
        self.down = self.w["exp_dn"].transpose(1, 2).flatten(2)

    def gdn(self, j: int, h: Tensor) -> Tensor:
        """One token through GDN layer j."""
        s, w = self.m.s, self.w
        kd, vd, b = s.kh * s.gdn, s.vh * s.gdn, h.shape[0]
        y, z, ba = F.linear(h, self.w_in[j]).split([2 * kd + vd, vd, 2 * s.vh], -1)
        window = torch.cat([self.conv[j], y[:, None]], 1)
        self.conv[j].copy_(window[:, 1:])
        q, k, v = F.silu((window * w["gdn_conv"][j].T).sum(1)).split([kd, kd, vd], -1)
        rep = s.vh // s.kh
        q = (l2(q.view(b, s.kh, -1)) * s.gdn**-0.5).repeat_interleave(rep, 1)[..., None]
        k = l2(k.view(b, s.kh, -1)).repeat_interleave(rep, 1)[..., None]
        beta, a = ba.split(s.vh, -1)
        g = (-w["gdn_a_log"][j].exp() * F.softplus(a + w["gdn_dt"][j])).exp()
        state = self.state[j] * g[..., None, None]
        z2 = torch.sigmoid(beta)[..., None, None] * (v.view(b, s.vh, -1, 1) - state @ k)
        state = state + z2 * k.mT
        self.state[j].copy_(state)
        o = (state @ q)[..., 0]
        o = w["gdn_norm"][j] * (o * torch.rsqrt(o.pow(2).mean(-1, keepdim=True) + 1e-6))
        return F.linear((o * F.silu(z.view(b, s.vh, -1))).flatten(1), w["gdn_out"][j])

    def rotate(self, x: Tensor, t: Tensor) -> Tensor:
        """RoPE of x [B, heads, D] at position t."""
        r = x.shape[-1] // 8
        cos, sin = self.angle[t].cos(), self.angle[t].sin()
        a, b, rest = x[..., :r], x[..., r : 2 * r], x[..., 2 * r :]
        return torch.cat([a * cos - b * sin, b * cos + a * sin, rest], -1)

    def attention(self, j: int, h: Tensor, t: Tensor) -> Tensor:
        """One token through attention layer j at position t [1]."""
        s, w, b = self.m.s, self.w, h.shape[0]
        n, d = s.heads * s.head_dim, s.head_dim
        qg, k, v = F.linear(h, self.w_att[j]).split([2 * n, s.kv_heads * d, s.kv_heads * d], -1)
        q, gate = qg.view(b, s.heads, 2 * d).chunk(2, -1)
        q = self.rotate(zrms(q, w["att_qn"][j]), t)
        k = self.rotate(zrms(k.view(b, s.kv_heads, d), w["att_kn"][j]), t)
        new = torch.stack([k, v.view(b, s.kv_heads, d)])[:, :, :, None].to(self.cache.dtype)
        self.cache[j].index_copy_(3, t, new)
        keys, values = self.cache[j]
        q = q.view(b, s.kv_heads, -1, d).to(keys.dtype)
        score = (q @ keys.mT).float() * d**-0.5
        score = score.masked_fill(self.place > t, -1e30).softmax(-1).to(keys.dtype)
        o = (score @ values).float().reshape(b, s.heads, d)
        return F.linear((o * torch.sigmoid(gate)).flatten(1), w["att_o"][j])

    def moe(self, i: int, h: Tensor) -> Tensor:
        """Experts, dense, and the shared expert."""
        s, w = self.m.s, self.w
        sizes = [s.experts * 2 * s.expert, 2 * s.shared, 1, s.experts]
        gu, sh, gate, router = F.linear(h, self.up[i]).split(sizes, -1)
        prob = router.softmax(-1)
        prob = torch.where(prob >= prob.topk(s.topk, -1).values[:, -1:], prob, 0.0)
        prob = prob / prob.sum(-1, keepdim=True)
        g, u = gu.view(-1, s.experts, 2 * s.expert).chunk(2, -1)
        y = F.linear((F.silu(g) * u * prob[..., None]).flatten(1), self.down[i])
        a, b = sh.chunk(2, -1)
        return y + torch.sigmoid(gate) * F.linear(F.silu(a) * b, w["sh_dn"][i])

    def step(self, ids: Tensor, t: Tensor) -> Tensor:
        """Logits [B, vocab] after the tokens at position t."""
        s, w = self.m.s, self.w
        x = w["embed"][ids]
        for i in range(s.layers):
            h = zrms(x, w["norm1"][i])
            linear = i in s.linear
            j = (s.linear if linear else s.full).index(i)
            x = x + (self.gdn(j, h) if linear else self.attention(j, h, t))
            x = x + self.moe(i, zrms(x, w["norm2"][i]))
        return F.linear(zrms(x, w["norm"]), w["embed"])


@torch.no_grad()
def complete(
    model: Target, ids: Tensor, prompt: Tensor, length: int, heat: Tensor, limit: int = 10**6,
    enough: float = 0.9999,
) -> Tensor:  # fmt: skip
    """Continue prompts; returns [B, length] with -1 after an end token.

    Args:
        ids: [B, length] int64, prompts from the left.
        prompt: [B] prompt lengths.
        length: positions of the result.
        heat: [B] temperatures, 0 for greedy.
        limit: most new tokens a row.
        enough: share of finished rows at which the others are left as they are.
    """
    rows, device = len(ids), ids.device
    decoder = Decoder(model, rows, length)
    out = torch.full((rows, length + 1), -1, device=device)
    out[:, :length] = ids.clamp(min=0)
    done = torch.zeros(rows, dtype=torch.bool, device=device)
    t = torch.zeros(1, dtype=torch.long, device=device)

    def step() -> None:
        logits = decoder.step(out.index_select(1, t)[:, 0].clamp(min=0), t)
        noise = -(-torch.rand_like(logits).clamp(1e-9).log()).log() * heat[:, None]
        chosen = (logits + noise).argmax(-1)
        nxt = out.index_select(1, t + 1)[:, 0]
        over = done | (t + 1 >= prompt + limit)
        nxt = torch.where(t + 1 < prompt, nxt, torch.where(over, -1, chosen))
        done.logical_or_((t + 1 >= prompt) & ((nxt == STOP) | (nxt == END)))
        out.index_copy_(1, t + 1, nxt[:, None])
        t.add_(1)

    run = step
    if device.type == "cuda":
        step()
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            step()
        run = graph.replay
    while int(t) < length - 1:
        for _ in range(min(32, length - 1 - int(t))):
            run()
        if float(done.float().mean()) > enough:
            break
    out = out[:, :length]
    out[:, int(t) + 1 :] = -1
    return out


def cut_loop(tokens: list[int]) -> int:
    """Length of an answer up to and including the third turn of a loop of period at most 32."""
    for end in range(TIMES, len(tokens) + 1):
        for p in range(1, min(PERIOD, end // TIMES) + 1):
            tail = tokens[end - TIMES * p : end]
            if tail[:p] == tail[p : 2 * p] == tail[2 * p :]:
                return end
    return len(tokens)


def loop_ends(out: Tensor, prompt: Tensor) -> Tensor:
    """`cut_loop` for all rows at once: [B] ends of the useful part, in positions of `out`."""
    length = out.shape[1]
    place = torch.arange(length, device=out.device)
    ends = ((out >= 0) | (place < prompt[:, None])).sum(1)
    for p in range(1, PERIOD + 1):
        same = torch.zeros_like(out, dtype=torch.bool)
        same[:, p:] = (out[:, p:] == out[:, :-p]) & (out[:, p:] >= 0)
        same &= place >= (prompt + p)[:, None]
        total = same.long().cumsum(1)
        need = (TIMES - 1) * p
        run = total.clone()
        run[:, need:] -= total[:, :-need]
        hit = run == need
        first = torch.where(hit.any(1), hit.long().argmax(1) + 1, length)
        ends = torch.minimum(ends, first)
    return ends


def prompts(rows: Rows, chosen: np.ndarray, length: int, room: int) -> tuple[Tensor, Tensor]:
    """Prompts of chat rows: all tokens before the last answer."""
    ids, mask = rows.pick(chosen, length)
    answer = mask == 2
    place = torch.arange(length, device=ids.device)
    given = torch.where(answer, -1, place) * (ids >= 0)
    # the last position that is not answer and is followed by an answer
    nxt = torch.cat([answer[:, 1:], torch.zeros_like(answer[:, :1])], 1)
    start = torch.where(~answer & nxt, given, -1).max(1).values + 1
    ids = torch.where(place < start[:, None], ids, -1)
    wide = torch.full((len(ids), length + room), -1, device=ids.device)
    wide[:, :length] = ids
    return wide, start


def garble(rows: Rows, ids: Tensor, start: Tensor) -> Tensor:
    """Overwrite a stretch of each prompt by text from anywhere: answers off the beaten track."""
    device, place = ids.device, torch.arange(ids.shape[1], device=ids.device)
    space = (start - 14).clamp(min=1)  # the chat form around the user's text stays
    low = 3 + (torch.rand(len(ids), device=device) * space).long()
    high = low + (torch.rand(len(ids), device=device) * (3 + space - low)).long()
    inside = (place >= low[:, None]) & (place < high[:, None])
    source = torch.randint(len(rows.ids) - ids.shape[1], (len(ids), 1), device=device)
    other = rows.ids[source + place].long()
    return torch.where(inside & (other < BASE_VOCAB), other, ids)


def renumber(ids: Tensor, start: Tensor, digits: Tensor) -> Tensor:
    """Put other digits into the prompts: known word problems become unknown ones."""
    chosen = torch.isin(ids, digits) & (torch.rand(ids.shape, device=ids.device) < 0.7)
    return torch.where(chosen, digits[torch.randint(1, 10, ids.shape, device=ids.device)], ids)


def sprinkle(rows: Rows, ids: Tensor, start: Tensor) -> Tensor:
    """Replace one token in eight of the user's text by tokens from anywhere."""
    place = torch.arange(ids.shape[1], device=ids.device)
    inside = (place >= 3) & (place < (start - 11)[:, None])
    hit = inside & (torch.rand(ids.shape, device=ids.device) < 0.125)
    other = rows.ids[torch.randint(len(rows.ids), ids.shape, device=ids.device)].long()
    return torch.where(hit & (other < BASE_VOCAB), other, ids)


def varied(rows: Rows, ids: Tensor, start: Tensor, digits: Tensor) -> Tensor:
    """Prompts of which three in four are new to the target, each in one of three ways."""
    way = torch.randint(4, (len(ids), 1), device=ids.device)
    ids = torch.where(way == 1, garble(rows, ids, start), ids)
    ids = torch.where(way == 2, renumber(ids, start, digits), ids)
    return torch.where(way == 3, sprinkle(rows, ids, start), ids)


def work(rows: Rows, rng: np.random.Generator, args: argparse.Namespace) -> Iterator[Work]:
    """Batches of prompts of like length, (longest prompt, row indices), without an end."""
    pool = np.flatnonzero(rows.chat & (rows.size < CAPS[-1]))
    kinds = rows.category[pool]
    weight = np.array([WEIGHTS.get(n, 1.0) for n in rows.names])[kinds]
    weight = weight / np.bincount(kinds, minlength=len(rows.names))[kinds]
    while True:
        order = rng.choice(pool, min(len(pool), args.rows), replace=False, p=weight / weight.sum())
        parts: list[Work] = []
        for low, cap in zip((0, *CAPS), CAPS, strict=False):
            mine = order[(rows.size[order] > low) & (rows.size[order] <= cap)]
            batch = min(args.batch, args.batch * 640 // (cap + args.room))
            cut = [mine[j : j + batch] for j in range(0, len(mine), batch)]
            parts += [(cap, part) for part in cut if len(part) > batch // 2]
        if not parts:
            raise SystemExit("There are too few rows for one batch; lower --batch.")
        yield from (parts[k] for k in rng.permutation(len(parts)))


def save(path: Path, rows: Rows, part: np.ndarray, out: Tensor, start: Tensor) -> int:
    """Write the useful parts of a batch of answers; returns how many tokens were the target's."""
    ends = loop_ends(out, start)
    keep = ends > start + 2
    place = torch.arange(out.shape[1], device=out.device)
    inside = (place < ends[:, None]) & keep[:, None]
    early = path.with_suffix(".part.npz")
    np.savez(
        early, tokens=out[inside].to(torch.int16).cpu().numpy(), size=ends[keep].cpu().numpy(),
        start=start[keep].cpu().numpy(), category=rows.category[part][keep.cpu().numpy()],
        names=np.array(rows.names),
    )  # fmt: skip
    early.rename(path)
    return int((ends - start)[keep].sum())


def run(args: argparse.Namespace) -> None:
    """Generate until the time is over."""
    began = time.time()
    torch.manual_seed(args.seed)
    torch.set_float32_matmul_precision("high")
    model = Target(Shape())
    load_target(model, args.target)
    model.to(args.device)
    rows = load_rows(args.data, args.device, args.part)
    tok = Tokenizer.from_file(str(args.target / "tokenizer.json"))
    digits = torch.tensor([tok.token_to_id(str(d)) for d in range(10)], device=args.device)
    args.out.mkdir(parents=True, exist_ok=True)
    number = len(list(args.out.glob("answers-*.npz")))
    count = 0
    for cap, part in work(rows, np.random.default_rng(args.seed), args):
        if time.time() - began > args.minutes * 60:
            break
        ids, start = prompts(rows, part, cap, args.room)
        ids = varied(rows, ids, start, digits)
        heat = torch.where(torch.rand(len(part), device=args.device) < 0.7, 0.0, 0.6)
        out = complete(model, ids, start, cap + args.room, heat, args.room, 0.95)
        count += save(args.out / f"answers-{number:04d}.npz", rows, part, out, start)
        number += 1
        spent = time.time() - began
        print(f"{cap}: {len(part)} rows, {count / 1e6:.2f} M in all, {spent:.0f} s", flush=True)


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--target", type=Path, required=True)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--minutes", type=float, default=9.0)
    parser.add_argument("--rows", type=int, default=60000)
    parser.add_argument("--batch", type=int, default=4096)
    parser.add_argument("--room", type=int, default=256)
    parser.add_argument("--part", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--device", default="cuda")
    run(parser.parse_args())


if __name__ == "__main__":
    main()
