"""Train the drafter on the target's own answers for a given time.

    python -m training.train_drafter --target DIR --data DIR --answers DIR --out DIR
        [--minutes 4] [--resume DIR]

Answers may still arrive while it trains: each new file is used first, older ones are drawn again
when there is none.

Anchors are drawn anew in every batch; row j of a block predicts the token at anchor + j. Losses are
weighted by D-PACE: the probability, softened by one half, that the tokens before j were right too.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from tokenizers import Tokenizer
from torch import Tensor

from training import export
from training.batches import Rows, batches, load_rows
from training.drafter import Drafter, DraftShape, to_names
from training.optim import Optimiser, schedule
from training.target import Shape, Target
from training.tokenizer import BASE_VOCAB

TOKENS = 30720
ALPHA = 0.5
SHARE = {"qa": 0.3, "stem": 0.3, "reasoning": 0.4, "math": 0.6}
TURNS = ("answers", "answers", "copies", "answers", "answers", "corpus")
ADAM = {"hn", "norm", "n1", "n2", "qn", "kn"}


Batch = tuple[Tensor, Tensor, Tensor]


def load_answers(path: Path, device: str) -> tuple[Rows, Tensor]:
    """Rows of prompt and answer, and where each answer starts."""
    data = np.load(path)
    size = data["size"].astype(np.int64)
    first = np.concatenate([[0], np.cumsum(size)[:-1]])
    ids = torch.from_numpy(data["tokens"]).to(device)
    rows = Rows(
        ids, torch.zeros(len(ids), dtype=torch.uint8, device=device),
        torch.from_numpy(first).to(device), size, data["category"],
        np.ones(len(size), bool), [str(n) for n in data["names"]],
    )  # fmt: skip
    return rows, torch.from_numpy(data["start"].astype(np.int64)).to(device)


def features(target: Target, ids: Tensor, taps: tuple[int, ...]) -> Tensor:
    """Tapped residuals [B, S, taps * hidden] of the frozen target."""
    with torch.no_grad():
        _, kept, _ = target.body(ids, taps)
    return torch.cat(kept, -1).view(*ids.shape, -1)


def weights(logp: Tensor, inside: Tensor) -> Tensor:
    """D-PACE weights [.., 15] from label log-probabilities; zero outside the answer."""
    q = (1 - ALPHA) * logp.detach().exp() + ALPHA
    reach = torch.where(inside, q, 0.0).cumprod(-1)
    return reach.flip(-1).cumsum(-1).flip(-1) * inside


def block_loss(
    model: Drafter, feats: Tensor, ids: Tensor, anchors: Tensor, ends: Tensor, embed: Tensor
) -> tuple[Tensor, Tensor]:
    """Weighted loss and the mean acceptance length over the blocks."""
    steps = torch.arange(1, model.d.block, device=ids.device)
    at = anchors[..., None] + steps
    inside = at < ends[:, None, None]
    flat = at.clamp(max=ids.shape[1] - 1).flatten(1)
    labels = ids.gather(1, flat).view(at.shape).clamp(min=0)
    x = model.rows(feats, anchors, ids.gather(1, anchors), embed)
    nll, best = model.head(x.flatten(0, 2), embed, labels.flatten(), model.dtype)
    nll, best = nll.view(labels.shape), best.view(labels.shape)
    w = weights(-nll, inside)
    right = (best == labels) & inside
    accepted = right.long().cumprod(-1).sum(-1).float()
    return (nll * w).sum() / w.sum().clamp(min=1), accepted.mean() + 1


def draw(starts: Tensor, ends: Tensor, count: int) -> Tensor:
    """Anchors [B, count]: uniform over each answer, its last token left out."""
    span = (ends - 1 - starts).clamp(min=1)
    return starts[:, None] + (torch.rand(len(starts), count, device=starts.device)
                              * span[:, None]).long()  # fmt: skip


def copies(rows: Rows, tok: Tokenizer, count: int, length: int) -> tuple[Tensor, Tensor, Tensor]:
    """Chats that repeat a stretch of a given text, [count, length], with answer starts and ends."""
    device = rows.ids.device
    head = torch.tensor(tok.encode("<|im_start|>user\n").ids, device=device)
    turn = "<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n"
    lead = ("", "According to the passage, ", "According to passage [2], ", "```python\n")
    link = torch.tensor(tok.encode(turn + lead[int(torch.randint(4, ()))]).ids, device=device)
    reply = 96 if length > 256 else 48
    size = length - len(head) - len(link) - reply
    source = torch.randint(len(rows.ids) - size, (count, 1), device=device)
    text = rows.ids[source + torch.arange(size, device=device)].long().clamp(max=BASE_VOCAB - 1)
    at = torch.randint(size - reply, (count, 1), device=device)
    again = text.gather(1, at + torch.arange(reply, device=device))
    parts = [head.expand(count, -1), text, link.expand(count, -1), again]
    start = torch.full((count,), length - reply, device=device)
    return torch.cat(parts, 1), start, torch.full_like(start, length)


def corpus(rows: Rows, part: np.ndarray, length: int) -> tuple[Tensor, Tensor, Tensor]:
    """Training rows with the start and end of their last answer."""
    ids, mask = rows.pick(part, length)
    place = torch.arange(length, device=ids.device)
    answer = mask == 2
    before = torch.cat([torch.zeros_like(answer[:, :1]), answer[:, :-1]], 1)
    start = torch.where(answer & ~before, place, 0).max(1).values
    end = torch.where(answer, place + 1, 0).max(1).values
    return ids, start, torch.maximum(end, start + 2)


def grow(tensors: dict[str, Tensor], model: Drafter) -> dict[str, Tensor]:
    """Fit saved weights of fewer, wider layers: keep strong neurons, add silent layers."""
    own = to_names(model)
    old = 1 + max(int(n.split(".")[1]) for n in tensors if n.startswith("layers."))
    new, width = len(model.layers), model.d.mlp
    out = {n: t for n, t in tensors.items() if not n.startswith("layers.")}
    for i in range(new):
        j = i if i < old - 1 else old - 1 if i == new - 1 else None
        p = f"layers.{i}."
        if j is None:
            out |= {n: t.detach() for n, t in own.items() if n.startswith(p)}
            continue
        layer = {n.split(".", 2)[2]: t for n, t in tensors.items() if n.startswith(f"layers.{j}.")}
        g, u, d = (layer[f"mlp.{k}_proj.weight"].float() for k in ("gate", "up", "down"))
        keep = (g.norm(dim=1) * u.norm(dim=1) * d.norm(dim=0)).topk(width).indices
        layer |= {"mlp.gate_proj.weight": g[keep], "mlp.up_proj.weight": u[keep]}
        layer["mlp.down_proj.weight"] = d[:, keep]
        out |= {p + n: t for n, t in layer.items()}
    return out


def saved_shape(folder: Path) -> DraftShape:
    """The shape of a saved drafter, from its configuration."""
    config = json.loads((folder / "config.json").read_text())
    window = config["sliding_window"]
    return DraftShape(
        hidden=config["hidden_size"], heads=config["num_attention_heads"],
        kv_heads=config["num_key_value_heads"], head_dim=config["head_dim"],
        mlp=config["intermediate_size"],
        windows=tuple(window if t == "sliding_attention" else 0 for t in config["layer_types"]),
        taps=tuple(config["dflash_config"]["target_layer_ids"]),
        block=config["dflash_config"]["block_size"], causal=bool(config.get("is_causal")),
        theta=config["rope_parameters"]["rope_theta"],
    )  # fmt: skip


def load_drafter(model: Drafter, folder: Path) -> None:
    """Copy saved weights."""
    tensors = export.read_shards(folder)
    if any(tensors[n].shape != s.shape for n, s in to_names(model).items() if n in tensors):
        tensors = grow(tensors, model)
    for name, slot in to_names(model).items():
        slot.data.copy_(tensors[name])


def save(model: Drafter, shape: Shape, out: Path) -> None:
    """Write weights and config."""
    export.save_shards(to_names(model), out)
    export.write_json(out / "config.json", export.drafter_config(model.d, shape))


def arriving(folder: Path, device: str, rng: np.random.Generator, tokens: int) -> Iterator[Batch]:
    """Ids, answer starts and ends of batches from a folder that may still be filling."""
    seen: list[Path] = []
    while True:
        new = sorted(set(folder.glob("answers-[0-9]*[0-9].npz")) - set(seen))
        if not new and not seen:
            time.sleep(1)
            continue
        seen += new
        for path in new or [seen[rng.integers(len(seen))]]:
            rows, starts = load_answers(path, device)
            for part, length in batches(rows, np.arange(len(rows.size)), rng, tokens):
                at = torch.as_tensor(part, device=device)
                ends = torch.as_tensor(rows.size[part], device=device)
                yield rows.pick(part, length)[0], starts[at], ends


def forever(
    rows: Rows, chosen: np.ndarray, rng: np.random.Generator, tokens: int
) -> Iterator[tuple[np.ndarray, int]]:
    """Batches, epoch after epoch."""
    while True:
        yield from batches(rows, chosen, rng, tokens)


def train(args: argparse.Namespace) -> None:
    """Train, report and save."""
    began = time.time()
    torch.manual_seed(args.seed)
    dtype = torch.bfloat16 if args.device == "cuda" else torch.float32
    target = Target(Shape(), dtype)
    export.load_target(target, args.target)
    target.to(args.device).requires_grad_(False)
    if args.compile:
        torch._dynamo.config.suppress_errors = True
        target.compile()
    model = Drafter(DraftShape(), dtype)
    model.norm.data.copy_(1 + target.norm)  # the shared head expects this scale
    if args.resume:
        load_drafter(model, args.resume)
    model.to(args.device)
    if args.compile:
        model.head = torch.compile(model.head, dynamic=True)
    optimiser = Optimiser(model, args.muon_lr, args.adam_lr, ADAM)
    rng = np.random.default_rng(args.seed)
    plain = load_rows(args.data, args.device, args.part)
    tok = Tokenizer.from_file(str(args.target / "tokenizer.json"))
    keep = np.array([SHARE.get(n, 1.0) for n in plain.names])[plain.category]
    chosen = np.flatnonzero((rng.random(len(keep)) < keep) & (plain.size >= 48))
    end, started = began + args.minutes * 60, time.time()
    step, loss_mean, accept_mean, stop = 0, 0.0, {}, False
    own = arriving(args.answers, args.device, rng, args.tokens)
    given = forever(plain, chosen, rng, args.tokens)
    while not stop:
        progress = max((time.time() - started) / (end - started), step / args.steps)
        stop = progress >= 1
        kind = TURNS[step % len(TURNS)]
        if not stop:
            if kind == "answers":
                ids, mine, ends = next(own)
            elif kind == "copies":
                length = int(rng.choice((256, 512, 1024)))
                ids, mine, ends = copies(plain, tok, args.tokens // length, length)
            else:
                part, length = next(given)
                ids, mine, ends = corpus(plain, part, length)
            feats = features(target, ids, model.d.taps)
            anchors = draw(mine, ends, min(32, ids.shape[1] // 8))
            loss, accepted = block_loss(model, feats, ids, anchors, ends, target.embed)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimiser.step(schedule(progress, flat=args.flat))
            step += 1
            loss_mean = 0.98 * loss_mean + 0.02 * loss.detach()
            accept_mean[kind] = accept_mean.get(kind, 1.0) * 0.95 + 0.05 * accepted
            if step in (1, 10, 100) or step % args.every == 0:
                fix = 1 - 0.98**step
                text = f"step {step} progress {progress:.3f} loss {float(loss_mean) / fix:.4f} "
                text += " ".join(f"{k} {float(v):.2f}" for k, v in accept_mean.items())
                text += f" {time.time() - began:.0f} s"
                print(text, flush=True)
    save(model, target.s, args.out)
    print(json.dumps({"steps": step}), flush=True)


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--target", type=Path, required=True)
    parser.add_argument("--answers", type=Path, required=True)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--part", type=float, default=1.0)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--resume", type=Path)
    parser.add_argument("--minutes", type=float, default=4.0)
    parser.add_argument("--steps", type=float, default=float("inf"))
    parser.add_argument("--tokens", type=int, default=TOKENS)
    parser.add_argument("--muon-lr", type=float, default=0.012)
    parser.add_argument("--adam-lr", type=float, default=0.003)
    parser.add_argument("--flat", type=float, default=0.35)
    parser.add_argument("--every", type=int, default=250)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--device", default="cuda")
    train(parser.parse_args())


if __name__ == "__main__":
    main()
