"""Acceptance length and answer quality of the pair on evaluation prompts.

    python -m training.evaluate --target DIR --drafter DIR --prompts FILE [--split test]

Greedy, enable_thinking=false, at most 256 tokens, answers cut at a loop. A draft block is
computed at every token; the rounds are then walked, so each emits what w = 16 would emit.
"""

from __future__ import annotations

import argparse
import ast
import json
import re
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer

from training.drafter import Drafter
from training.export import load_target
from training.generate import complete, loop_ends
from training.target import Shape, Target, linear
from training.train_drafter import features, load_drafter, saved_shape

MAIN = ("coding", "math", "reasoning", "rag", "summarization", "writing", "roleplay")
NEW = 256


def render(prompt: str) -> str:
    """The chat form of one user turn without thinking."""
    head = f"<|im_start|>user\n{prompt.strip()}<|im_end|>\n<|im_start|>assistant\n"
    return head + "<think>\n\n</think>\n\n"


@torch.no_grad()
def answer(model: Target, encoded: list[list[int]], device: str) -> list[tuple[int, list[int]]]:
    """(prompt length, all tokens) of greedy answers cut at a loop."""
    done: list[tuple[int, list[int]]] = [(0, [])] * len(encoded)
    order = sorted(range(len(encoded)), key=lambda i: len(encoded[i]))
    for low in range(0, len(order), 64):
        part = order[low : low + 64]
        length = max(len(encoded[i]) for i in part) + NEW
        ids = torch.full((len(part), length), -1, device=device)
        for r, i in enumerate(part):
            ids[r, : len(encoded[i])] = torch.tensor(encoded[i], device=device)
        start = torch.tensor([len(encoded[i]) for i in part], device=device)
        out = complete(model, ids, start, length, torch.zeros(len(part), device=device), NEW)
        for r, (i, end) in enumerate(zip(part, loop_ends(out, start).tolist(), strict=True)):
            done[i] = (int(start[r]), out[r, :end].tolist())
    return done


@torch.no_grad()
def acceptance(target: Target, model: Drafter, start: int, tokens: list[int]) -> list[int]:
    """Tokens each round emits while decoding this answer with w = 16."""
    device = target.embed.device
    pad = -len(tokens) % 32
    ids = torch.tensor([tokens + [-1] * pad], device=device)
    feats = features(target, ids, model.d.taps)
    last = len(tokens) - 1
    if last <= start:
        return []
    anchors = torch.arange(start, last, device=device)[None]
    x = model.rows(feats, anchors, ids[:, start:last], target.embed)
    drafts = linear(x, target.embed, model.dtype).argmax(-1)[0].tolist()
    rounds, at = [], start
    while at < last:
        a = 0
        while a < 15 and at + 1 + a <= last and drafts[at - start][a] == tokens[at + 1 + a]:
            a += 1
        rounds.append(min(a + 1, last - at))
        at += a + 1
    return rounds


def repetition(tokens: list[int]) -> float:
    """Share of 4-grams that occurred before."""
    grams = [tuple(tokens[i : i + 4]) for i in range(len(tokens) - 3)]
    return 1 - len(set(grams)) / len(grams) if grams else 0.0


def parses(text: str) -> list[bool]:
    """Whether each closed code block is Python."""
    out = []
    for block in re.findall(r"```(?:python)?\n(.*?)```", text, re.S):
        try:
            ast.parse(block)
            out.append(True)
        except (SyntaxError, ValueError):
            out.append(False)
    return out


def overlap(prompt: list[int], reply: list[int]) -> float:
    """Share of an answer's 4-grams that stand in the prompt."""
    given = {tuple(prompt[i : i + 4]) for i in range(len(prompt) - 3)}
    grams = [tuple(reply[i : i + 4]) for i in range(len(reply) - 3)]
    return sum(g in given for g in grams) / len(grams) if grams else 0.0


def mean(values: list[float]) -> float:
    """Mean, 0 when empty."""
    return sum(values) / len(values) if values else 0.0


def evaluate(args: argparse.Namespace) -> dict[str, Any]:
    """Run all prompts and summarise."""
    torch.set_float32_matmul_precision("high")
    target, model = Target(Shape()), None
    load_target(target, args.target)
    target.to(args.device)
    if args.drafter:
        model = Drafter(saved_shape(args.drafter))
        load_drafter(model, args.drafter)
        model.to(args.device)
    tok = Tokenizer.from_file(str(args.target / "tokenizer.json"))
    lines = [json.loads(line) for line in args.prompts.read_text().splitlines()]
    lines = [x for x in lines if x["split"] == args.split and x["category"] != "multilingual"]
    if args.limit:
        seen: Counter[str] = Counter()
        lines = [x for x in lines if (seen.update([x["category"]]), seen[x["category"]])[1]
                 <= args.limit]  # fmt: skip
    encoded = [tok.encode(render(x["turns"][0])).ids[-1280:] for x in lines]
    rounds, repeats, code, copied = (defaultdict(list) for _ in range(4))
    samples = []
    for line, (start, ids) in zip(lines, answer(target, encoded, args.device), strict=True):
        kind, reply = line["category"], ids[start:]
        text = tok.decode(reply)
        if model is not None:
            rounds[kind] += acceptance(target, model, start, ids)
        repeats[kind].append(repetition(reply))
        code[kind] += parses(text)
        copied[kind].append(overlap(ids[:start], reply))
        samples.append({"id": line["id"], "rounds": len(rounds[kind]), "text": text})
    table = {
        k: {"acceptance": round(mean(rounds[k]), 3), "rounds": len(rounds[k]),
            "repetition": round(mean(repeats[k]), 3), "copied": round(mean(copied[k]), 3),
            "blocks": len(code[k]), "parse": round(mean(code[k]), 3)}
        for k in repeats
    }  # fmt: skip
    pooled = [r for k in MAIN for r in rounds[k]]
    summary = {"mean_of_7": round(mean([table[k]["acceptance"] for k in MAIN if k in table]), 3),
               "pooled_7": round(mean(pooled), 3)}  # fmt: skip
    return {"categories": table, **summary, "samples": samples}


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--target", type=Path, required=True)
    parser.add_argument("--drafter", type=Path)
    parser.add_argument("--prompts", type=Path, required=True)
    parser.add_argument("--split", default="test")
    parser.add_argument("--limit", type=int, default=0)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--device", default="cpu")
    result = evaluate(args := parser.parse_args())
    if args.out:
        args.out.write_text(json.dumps(result, indent=1, ensure_ascii=False))
    for kind, row in result["categories"].items():
        print(f"{kind:14s}", json.dumps(row))
    print({k: v for k, v in result.items() if k not in ("categories", "samples")})


if __name__ == "__main__":
    main()
