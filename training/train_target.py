"""Train the target for a given time; the learning rate ends at zero with it.

    python -m training.train_target --data DIR --out DIR --minutes 8 [--resume DIR] [--device cuda]
    torchrun --nproc-per-node 2 -m training.train_target ...   # the same on two GPUs

A resumed run starts from saved bf16 weights with fresh, re-warmed optimiser state.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import numpy as np
import torch

from training import parallel
from training.batches import TOKENS, Rows, batches, load_rows, shifted
from training.export import load_target, save_target
from training.optim import Optimiser, schedule
from training.target import Shape, Target

ADAM = {"embed", "router", "norm1", "norm2", "gdn_conv", "gdn_a_log", "gdn_dt", "gdn_norm"}
ADAM |= {"att_qn", "att_kn", "sh_gate", "gdn_ba"}
HELD_OUT = 3000
BALANCE = 0.01
CLOCK = 10  # steps between two looks at the clock


def losses(model: Target, rows: Rows, chosen: np.ndarray, tokens: int) -> dict[str, float]:
    """Mean answer loss in nats by category on held-out rows."""
    total = np.zeros(len(rows.names))
    count = np.zeros(len(rows.names))
    for part, length in batches(rows, chosen, np.random.default_rng(0), tokens):
        ids, mask = rows.pick(part, length)
        labels, weights = shifted(ids, mask)
        answer = (weights == 1.0).float()
        loss, _ = model.loss(ids, labels, answer)  # with grad: the compiled pieces are for that
        by_row = loss.detach().view(len(part), -1).sum(1).cpu().numpy()
        np.add.at(total, rows.category[part], by_row)
        np.add.at(count, rows.category[part], answer.sum(1).cpu().numpy())
    means = total / np.maximum(count, 1)
    return {n: round(float(m), 3) for n, m in zip(rows.names, means, strict=True)}


def train(args: argparse.Namespace) -> None:
    """Train, report and save."""
    began = time.time()
    rank, ranks, device = parallel.start(args.device)
    torch.manual_seed(args.seed)
    torch.set_float32_matmul_precision("highest")
    dtype = torch.bfloat16 if args.device == "cuda" else torch.float32
    model = Target(Shape(), dtype)
    if args.resume:
        load_target(model, args.resume)
    model.to(device)
    if args.compile:
        torch._dynamo.config.suppress_errors = True
        model.compile()
    rows = load_rows(args.data, device, args.part)
    print(f"loaded {rows.size.sum() / 1e6:.1f} M tokens in {time.time() - began:.1f} s", flush=True)
    everything = np.arange(len(rows.size))
    held, chosen = everything[:HELD_OUT], everything[HELD_OUT:]
    optimiser = Optimiser(model, args.muon_lr, args.adam_lr, ADAM)
    rng = np.random.default_rng([args.seed, rank])
    step, epoch, seen, running, progress = 0, 0, 0, 0.0, 0.0
    end = began + args.minutes * 60
    started = last = time.time()
    while True:
        for part, length in batches(rows, chosen, rng, args.tokens):
            if step % CLOCK == 0:
                progress = max((time.time() - started) / (end - started), step / args.steps)
                progress = parallel.agree(progress, device)
            if progress >= 1:
                break
            ids, mask = rows.pick(part, length)
            labels, weights = shifted(ids, mask)
            loss, balance = model.loss(ids, labels, weights)
            loss = loss.sum() / weights.sum().clamp(min=1)
            (loss + BALANCE * balance).backward()
            parallel.average(model)
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimiser.step(schedule(progress))
            running = 0.98 * running + 0.02 * loss.detach()
            step, seen = step + 1, seen + len(part) * length * ranks
            if rank == 0 and (step in (1, 5, 20, 100) or step % args.every == 0):
                mean = float(running) / (1 - 0.98**step)
                rate = seen / (time.time() - started)
                text = f"step {step} epoch {epoch} progress {progress:.3f} loss {mean:.4f} balance "
                text += f"{float(balance.detach()):.3f} {rate / 1e6:.3f} M tok/s"
                text += f" {time.time() - last:.1f} s"
                print(text, flush=True)
                last = time.time()
        else:
            epoch += 1
            continue
        break
    if rank == 0:
        save_target(model, args.out)
    parallel.finish()
    if rank:
        return
    report = losses(model, rows, held[: args.held], args.tokens)
    print(json.dumps({"steps": step, "tokens": seen, "held_out": report}), flush=True)


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--resume", type=Path)
    parser.add_argument("--minutes", type=float, default=8.0)
    parser.add_argument("--steps", type=float, default=float("inf"))
    parser.add_argument("--tokens", type=int, default=TOKENS)
    parser.add_argument("--muon-lr", type=float, default=0.012)
    parser.add_argument("--adam-lr", type=float, default=0.004)
    parser.add_argument("--every", type=int, default=500)
    parser.add_argument("--held", type=int, default=HELD_OUT)
    parser.add_argument("--part", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--device", default="cuda")
    train(parser.parse_args())


if __name__ == "__main__":
    main()
