"""Conversations: each turn is one generation, whose prompt holds the turns before it.

The answers in a prompt are the system's own. Where two systems differ in one turn they are asked
different things in the next, so only the first difference of a conversation is one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hybridspec.bench.prompts import Prompt
from hybridspec.bench.records import Key, Record
from hybridspec.text.tokenizer import Tokenizer


def messages(prompt: Prompt, answers: Sequence[str]) -> list[dict[str, str]]:
    """The chat up to the turn that follows these answers."""
    turns = prompt.turns[: len(answers) + 1]
    chat = [{"role": "user", "content": turns[0]}]
    for answer, turn in zip(answers, turns[1:], strict=True):
        chat += [{"role": "assistant", "content": answer}, {"role": "user", "content": turn}]
    return chat


def answers(key: Key, records: Mapping[Key, Record], tokenizer: Tokenizer) -> list[str]:
    """What was answered in the turns before `key`'s; KeyError where one has not run."""
    before = (records[key._replace(turn=turn)] for turn in range(key.turn))
    return [tokenizer.decode(record.token_ids) for record in before]


def question(key: Key) -> str:
    """The prompt's id, with the turn's number where it is not the first."""
    return f"{key.prompt}, turn {key.turn + 1}" if key.turn else key.prompt


def comparable(records: Mapping[Key, Record], baseline: str) -> dict[Key, Record]:
    """Answers by repeat, question and system, without those to another conversation.

    A turn is another question where an earlier answer is not the baseline's first one.
    """
    first: dict[tuple[str, int], Record] = {}
    for key in sorted(k for k in records if k.system == baseline):
        first.setdefault((key.prompt, key.turn), records[key])

    def same(key: Key) -> bool:
        earlier = [(key._replace(turn=t), first.get((key.prompt, t))) for t in range(key.turn)]
        return all(r and k in records and records[k].token_ids == r.token_ids for k, r in earlier)

    return {
        Key(key.repeat, question(key), key.system): record
        for key, record in records.items()
        if same(key)
    }
