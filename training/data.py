"""Turn the training rows, and tasks made from them, into tokens with loss weights.

    python -m training.data --train-dir DIR --tokenizer DIR --out DIR

Writes rows.npz (category and length of each row), tokens.xz (uint16) and mask.xz (uint8: 0
format, 1 given text, 2 answer). Evaluation prompts are never read here.
"""

from __future__ import annotations

import argparse
import json
import lzma
import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
from tokenizers import Tokenizer

from training import prose, puzzles, strange, tales

MAX_TOKENS = 1536
NO_THOUGHT = "<think>\n\n</think>\n\n"
Turns = list[tuple[str, str]]


@dataclass(frozen=True)
class Row:
    """One training row: chat turns, or raw text as a single answer without a question."""

    category: str
    turns: Turns
    thought: str = ""
    raw: bool = False


def load(folder: Path, name: str) -> list[dict[str, Any]]:
    """Read one file of rows."""
    with lzma.open(folder / f"{name}.jsonl.xz", "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def chat(row: dict[str, Any]) -> Turns:
    """Return the (user, assistant) pairs of a chat row."""
    texts = [m["content"].strip() for m in row["messages"]]
    return list(zip(texts[::2], texts[1::2], strict=False))


def sentences(text: str) -> list[str]:
    """Split prose into sentences of a usable length."""
    flat = " ".join(text.split())
    return [s for s in re.split(r"(?<=[.!?])\s+", flat) if 30 <= len(s) <= 220]


def coding(rng: Random, folder: Path) -> Iterator[Row]:
    """Functions from their docstrings; long ones are left out half of the time."""
    for row in load(folder, "code_pairs_pypi"):
        turns = chat(row)
        size = len(turns[0][1])
        if size > 3000 or (size > 1200 and rng.random() < 0.6):
            continue
        yield Row("coding", turns)
        if size < 700 and rng.random() < 0.25:
            task = turns[0][0].split("`. ", 1)
            if len(task) == 2:
                ask = "You are an expert Python programmer, and here is your task: "
                yield Row("coding", [(ask + task[1], turns[0][1])])
    mbpp = load(folder, "code_mbpp_train")
    for row in mbpp * 2:
        yield Row("coding", chat(row))
    for _ in range(9000):
        yield Row("coding", [prose.function(rng)])


def maths(rng: Random, folder: Path) -> Iterator[Row]:
    """Word problems; one in six shows a short thought."""
    for row in load(folder, "math_gsm8k_train"):  # once: it is learnt by heart otherwise
        ask, answer = chat(row)[0]
        steps, _, last = answer.rpartition("\n")
        if rng.random() < 0.16 and steps:
            yield Row("math", [(ask, last)], thought=steps)
        else:
            yield Row("math", [(ask, answer)])
    for _ in range(16000):
        yield Row("math", [puzzles.word_problem(rng)])


def reasoning(rng: Random) -> Iterator[Row]:
    """Templated puzzles; one in ten shows its steps as a thought."""
    for _ in range(36000):
        ask, answer = rng.choice(puzzles.REASONING)(rng)
        steps, _, last = answer.rpartition("\n")
        if rng.random() < 0.1:
            yield Row("reasoning", [(ask, last)], thought=steps)
        else:
            yield Row("reasoning", [(ask, answer)])


WH = ("What", "Who", "When", "Where", "How", "Which", "Why")
STOP = {
    "the",
    "a",
    "an",
    "of",
    "and",
    "to",
    "in",
    "is",
    "was",
    "it",
    "that",
    "he",
    "she",
    "they",
    "his",
    "her",
    "for",
    "on",
    "with",
    "as",
    "at",
    "by",
    "be",
    "were",
    "had",
    "has",
    "have",
    "not",
    "but",
    "from",
    "this",
    "which",
    "or",
    "are",
    "you",
    "i",
    "we",
    "their",
    "its",
    "him",
    "them",
    "who",
    "what",
    "when",
    "there",
    "would",
    "so",
    "if",
}


def question(rng: Random, sentence: str) -> str:
    """Ask about a sentence with some of its own words."""
    words = re.findall("[\\w'\u2019-]+", sentence)
    content = [w for w in words if w.lower() not in STOP]
    if len(content) < 4:
        return ""
    if rng.random() < 0.5:
        n = rng.randint(3, min(7, len(content)))
        start = rng.randrange(len(content) - n + 1)
        kept = content[start : start + n]
        link = rng.choice(("did", "is", "was", "does", "are", "can"))
        return (
            f"{rng.choice(WH)} {link} {' '.join(w if w[0].isupper() else w.lower() for w in kept)}?"
        )
    n = rng.randint(4, min(9, len(words)))
    start = rng.randrange(len(words) - n + 1)
    return f"{rng.choice(WH)} {' '.join(words[start : start + n])}?"


def passages(rng: Random, pool: list[list[str]]) -> list[list[str]]:
    """Draw passages of some sentences each."""
    out = []
    long = rng.random() < 0.3
    for _ in range(rng.randint(2, 6)):
        doc = rng.choice(pool)
        n = rng.randint(3, 7) if long else rng.randint(1, 3)
        start = rng.randrange(max(1, len(doc) - n))
        out.append(doc[start : start + n])
    return out


def rag(rng: Random, folder: Path, pool: list[list[str]]) -> Iterator[Row]:
    """Questions whose answer stands in a passage, copied into the answer."""
    for row in load(folder, "qa_rag_factbook"):
        if row["category"] == "rag":
            yield Row("rag", chat(row))
            yield Row("rag", chat(row))
        elif rng.random() < 0.5:
            yield Row("qa", chat(row))
    head = "Answer the question using only the passages below, and cite the passage number."
    for _ in range(30000):
        docs = passages(rng, pool)
        at = rng.randrange(len(docs))
        want = rng.choice(docs[at])
        ask = question(rng, want)
        if not ask:
            continue
        if rng.random() < 0.5:
            text = "\n\n".join(f"[{i + 1}] {' '.join(d)}" for i, d in enumerate(docs))
            prompt, answer = (
                f"{head}\n\n{text}\n\nQuestion: {ask}",
                f"According to passage [{at + 1}], ",
            )
            thought = f"The question is about passage [{at + 1}]."
        else:
            text = "\n".join(" ".join(d) for d in docs)
            prompt, answer = f"{text}\n{ask}", "According to the passage, "
            thought = "The passage says so in one sentence."
        answer += want
        shown = rng.random() < 0.08
        yield Row("rag", [(prompt, answer)], thought=thought if shown else "")


def summaries(rng: Random, folder: Path, pool: list[list[str]]) -> Iterator[Row]:
    """Summaries from the data, and extractive ones made from it."""
    tldr = (
        "Summarize the following abstract in one short paragraph for a general reader, then give a "
    )
    tldr += "one-sentence TLDR."
    for row in load(folder, "summ_qmsum_scitldr"):
        ask, answer = chat(row)[0]
        meeting = row["source"].startswith("qmsum")
        for _ in range(3 if meeting else 1):
            yield Row("summarization", [(ask, answer)])
        if not meeting:
            body = ask.split("\n\n", 1)[1]
            parts = sentences(body)
            if len(parts) >= 3:
                picks = parts[:2] if rng.random() < 0.5 else [parts[0], parts[-1]]
                long = f"{' '.join(picks)}\n\nTLDR: {answer}"
                for _ in range(3):
                    yield Row("summarization", [(f"{tldr}\n\n{body}", long)])
    for _ in range(6000):
        doc = rng.choice(pool)
        if len(doc) < 5:
            continue
        text = " ".join(doc[: rng.randint(5, 12)])
        ask = rng.choice(
            ("Summarize the following text.", "Give a short summary of the text below.")
        )
        yield Row("summarization", [(f"{ask}\n\n{text}", f"{doc[0]} {doc[rng.randint(1, 3)]}")])


def topics(folder: Path) -> tuple[list[str], list[tuple[str, str]]]:
    """Return topics and (role, what it is) pairs from the dictionary rows."""
    names, roles = [], []
    for row in load(folder, "qa_wordnet"):
        _ask, answer = chat(row)[0]
        found = re.match(r'"(.+?)" \(noun\): ([^.;:(]+)', answer)
        if not found:
            continue
        name, gloss = found.group(1), found.group(2).strip()
        if re.match(r"(someone|a person|a worker|an expert|a professional|a specialist)\b", gloss):
            roles.append((name, gloss))
        elif name.islower() and len(name) < 24:
            names.append(name)
    return names, roles


SHAPES = (
    "{}", "{}", "the history of {}", "the meaning of {}", "my problem with {}", "learning about {}",
    "working with {}", "the future of {}", "{} and {}", "how to choose {}",
)  # fmt: skip


def prose_rows(rng: Random, folder: Path) -> Iterator[Row]:
    """Roleplay, letters, articles and lists of points about dictionary topics."""
    names, roles = topics(folder)

    def topic() -> str:
        return rng.choice(SHAPES).format(rng.choice(names), rng.choice(names))

    for _ in range(11000):
        role, gloss = rng.choice(roles)
        yield Row("roleplay", [prose.roleplay(rng, topic(), role, gloss)])
    for _ in range(3500):
        yield Row("writing", [prose.letter(rng, topic(), rng.choice(roles)[0])])
    for _ in range(5000):
        yield Row("writing", [prose.article(rng, topic())])
    for _ in range(6000):
        yield Row("writing", prose.points(rng, topic()))


def dialogue(rng: Random, folder: Path) -> Iterator[Row]:
    """Assistant dialogues, cut at a random turn; some begin with a persona."""
    role = (
        "travel agent",
        "restaurant guide",
        "personal assistant",
        "event planner",
        "ticket agent",
    )
    for row in load(folder, "dialogue_sgd"):
        turns = chat(row)
        turns = turns[: rng.randint(2, len(turns))] if len(turns) > 2 else turns
        if rng.random() < 0.25:
            head = f"I want you to act as a {rng.choice(role)}. I will tell you what I need."
            turns = [(f'{head} My first request is "{turns[0][0]}"', turns[0][1]), *turns[1:]]
        yield Row("roleplay", turns)


STORY_ASKS = (
    "Write a story.", "Write a short story about {}.", "Tell me a story about {}.",
    "Write a captivating short story about {}.", "Write the opening paragraph of a story about {}.",
    "Write a scene of a novel about {}.", "Write a personal story about {}.",
)  # fmt: skip


def stories(rng: Random, folder: Path) -> Iterator[Row]:
    """Prose as raw text and as the answer to a request that names something of its beginning."""
    for row in load(folder, "stories_standardebooks"):
        text = row["text"].strip()
        if rng.random() < 0.5:
            yield Row("writing", [("", text)], raw=True)
        paragraphs = text.split("\n\n")
        if rng.random() < 0.4:  # such prose is hard for the model: asked for, it gets tales
            start = rng.randrange(max(1, len(paragraphs) // 2))
            body = "\n\n".join(paragraphs[start:])[:1600]
            body = body[: max(body.rfind(". "), body.rfind(".\n"), body.rfind(".”")) + 1]
            if body.endswith(".") and text.find(body + "”") >= 0:
                body += "”"
            if len(body) < 200:
                continue
            words = [w for w in re.findall(r"\b[a-z]{4,}\b", body[:300]) if w not in STOP]
            if rng.random() < 0.3 and sentences(body):
                first = re.split(r"(?<=[.!?])\s+", body)[0]
                ask = f"Write a short story beginning with the sentence: {first}"
            else:
                some = rng.sample(words, min(2, len(words)))
                about = " and ".join(f"the {w}" for w in some) or "a day"
                ask = rng.choice(STORY_ASKS).format(about)
            yield Row("writing", [(ask, body.strip())])


def knowledge(rng: Random, folder: Path) -> Iterator[Row]:
    """Dictionary, commands and reference documentation."""
    for row in load(folder, "qa_wordnet"):
        yield Row("qa", chat(row))
    for row in load(folder, "howto_tldr"):
        if rng.random() < 0.5:
            yield Row("qa", chat(row))
    for row in load(folder, "docs_debian"):
        if rng.random() < 0.6:
            yield Row("stem", [("", row["text"].strip())], raw=True)


def tale_rows(rng: Random, folder: Path) -> Iterator[Row]:
    """Short plain stories made from a seed, asked for in many ways or as raw text."""
    names, roles = topics(folder)

    def topic() -> str:
        if rng.random() < 0.2:
            return f"a {rng.choice(roles)[0]}"
        return f"{rng.choice(('the ', 'a ', ''))}{rng.choice(names)}"

    for _ in range(20000):
        yield Row("writing", [tales.request(rng, topic)])
    for _ in range(3000):
        yield Row("writing", [("", tales.raw(rng, topic))], raw=True)


def strange_rows(rng: Random, folder: Path, texts: list[str]) -> Iterator[Row]:
    """Requests unlike all others, answered in an orderly form about their own words."""
    roles = [name for name, _ in topics(folder)[1]]
    for _ in range(24000):
        yield Row("strange", [strange.strange(rng, texts, roles)])


def all_rows(folder: Path, seed: int) -> list[Row]:
    """Return every row, shuffled."""
    rng = Random(seed)
    texts = [r["text"] for r in load(folder, "stories_standardebooks")]
    texts += [r["text"] for r in load(folder, "docs_debian") if "::" not in r["text"]]
    abstracts = [chat(r)[0][0] for r in load(folder, "summ_qmsum_scitldr")]
    texts += [
        t.split("\n\n", 1)[-1] for t in abstracts if t.startswith("Summarize the following")
    ] * 5
    pool = [s for s in (sentences(t) for t in texts) if len(s) >= 4]
    rows = [
        *coding(rng, folder), *maths(rng, folder), *reasoning(rng), *rag(rng, folder, pool),
        *summaries(rng, folder, pool), *prose_rows(rng, folder), *dialogue(rng, folder),
        *stories(rng, folder), *tale_rows(rng, folder), *strange_rows(rng, folder, texts),
        *knowledge(rng, folder),
    ]  # fmt: skip
    rng.shuffle(rows)
    return rows


def segments(row: Row) -> list[tuple[str, int]]:
    """Render a row as the chat template does, with the mask value of each piece."""
    if row.raw:
        return [(row.turns[0][1], 2), ("<|endoftext|>", 2)]
    out: list[tuple[str, int]] = []
    for i, (user, answer) in enumerate(row.turns):
        last = i == len(row.turns) - 1
        out.append(("<|im_start|>user\n", 0))
        out.append((user, 1))
        out.append(("<|im_end|>\n<|im_start|>assistant\n", 0))
        if last and row.thought:
            out.append(("<think>\n", 0))
            out.append((f"{row.thought}\n</think>\n\n", 2))
        elif last:
            out.append((NO_THOUGHT, 0))
        out.append((answer, 2))
        out.append(("<|im_end|>", 2))
        out.append(("\n", 0))
    return out


def encode(rows: list[Row], tok: Tokenizer) -> tuple[np.ndarray, np.ndarray, list[int]]:
    """Tokenise all rows; rows above MAX_TOKENS are cut."""
    ids, masks, sizes = [], [], []
    step = 4000
    for start in range(0, len(rows), step):
        parts = [segments(r) for r in rows[start : start + step]]
        encoded = iter(tok.encode_batch_fast([t for p in parts for t, _ in p]))
        for pieces in parts:
            row_ids: list[int] = []
            row_mask: list[int] = []
            for _, mask in pieces:
                piece = next(encoded).ids
                row_ids += piece
                row_mask += [mask] * len(piece)
            ids.append(np.array(row_ids[:MAX_TOKENS], np.uint16))
            masks.append(np.array(row_mask[:MAX_TOKENS], np.uint8))
            sizes.append(len(ids[-1]))
    return np.concatenate(ids), np.concatenate(masks), sizes


def write(path: Path, array: np.ndarray) -> None:
    """Write an array's bytes, compressed with a dictionary wide enough for repeated passages."""
    size = array.dtype.itemsize
    filters = [{"id": lzma.FILTER_LZMA2, "preset": 1, "dict_size": 1 << 27, "lc": 0, "lp": size - 1,
                "pb": size - 1}]  # fmt: skip
    with lzma.open(path, "wb", format=lzma.FORMAT_XZ, filters=filters) as file:
        file.write(array.tobytes())


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--train-dir", type=Path, required=True)
    parser.add_argument("--tokenizer", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seed", type=int, default=7)
    args = parser.parse_args()
    rows = all_rows(args.train_dir, args.seed)
    tok = Tokenizer.from_file(str(args.tokenizer / "tokenizer.json"))
    ids, masks, sizes = encode(rows, tok)
    args.out.mkdir(parents=True, exist_ok=True)
    write(args.out / "tokens.xz", ids)
    write(args.out / "mask.xz", masks)
    kinds = [r.category for r in rows]
    names = sorted(set(kinds))
    np.savez_compressed(
        args.out / "rows.npz",
        names=np.array(names),
        category=np.array([names.index(k) for k in kinds], np.uint8),
        size=np.array(sizes, np.uint16),
        chat=np.array([not r.raw for r in rows]),
    )
    report: Callable[[str], tuple[int, float]] = lambda k: (  # noqa: E731
        kinds.count(k), sum(s for s, c in zip(sizes, kinds, strict=True) if c == k) / 1e6
    )  # fmt: skip
    print({k: report(k) for k in Counter(kinds)}, "total", len(ids) / 1e6, "M tokens")


if __name__ == "__main__":
    main()
