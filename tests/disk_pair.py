"""A tiny target, its drafter and their tokenizer on disk, laid out as the published ones are.

The tokenizer has one token a byte. What the models say is set by the target's head, which the
drafter shares:
- `random`: bytes without sense; hardly a draft is accepted.
- `flat`: equal logits, so greedy decoding says token 0, "!", for ever and accepts every draft.
- `cycle`: the characters of CYCLE in order, for ever; after "!" the end of the answer.
- `overflow`: logits beyond the range of float32.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import tokenizers
import torch
from tokenizers import AddedToken, decoders, models, pre_tokenizers

from builders import drafter_config, random_drafter, random_target, target_config
from hybridspec.checkpoint import save_drafter, save_target
from hybridspec.model.target import Target
from hybridspec.text.detokenize import SYMBOLS

SPECIAL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
THINK = ("<think>", "</think>")
VOCABULARY = 264  # 256 bytes, the five tokens above, and spare rows of which the last is the mask
CYCLE = "abcdefghijklmnopqrstuvwxyzé "
MIXERS = ("linear_attn.out_proj.weight", "self_attn.o_proj.weight", "down_proj", "down_proj.weight")

TEMPLATE = """\
{%- for message in messages %}
    {{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n<think>\\n' }}
    {%- if enable_thinking is defined and enable_thinking is false %}
        {{- '\\n</think>\\n\\n' }}
    {%- endif %}
{%- endif %}
"""


@dataclass(frozen=True)
class DiskPair:
    """The folders of a pair."""

    target: Path
    draft: Path

    @property
    def options(self) -> list[str]:
        """The command line's options for it."""
        return ["--model", str(self.target), "--draft", str(self.draft)]


def write_pair(folder: Path, head: str = "random", *, template: bool = True) -> DiskPair:
    """Writes a pair under `folder`; without `template` it can only be prompted raw."""
    pair = DiskPair(folder / "target", folder / "drafter")
    config = target_config(vocab_size=VOCABULARY, max_position_embeddings=32768)
    target = random_target(config, context=0)
    HEADS[head](target)
    save_target(pair.target, target)
    drafter = random_drafter(drafter_config(config, max_position_embeddings=32768), context=0)
    save_drafter(pair.draft, drafter)
    write_tokenizer(pair.target, template=template)
    ends = {"eos_token_id": [token_id("<|im_end|>"), token_id("<|endoftext|>")]}
    (pair.target / "generation_config.json").write_text(json.dumps(ends))
    return pair


def write_tokenizer(folder: Path, *, template: bool = True) -> None:
    """Writes `tokenizer.json`, `tokenizer_config.json` and the chat template."""
    vocabulary = {symbol: rank for rank, symbol in enumerate(SYMBOLS)}
    backend = tokenizers.Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    backend.add_special_tokens(list(SPECIAL))
    backend.add_tokens([AddedToken(text, normalized=False) for text in THINK])
    backend.save(str(folder / "tokenizer.json"))
    config = {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "<|im_end|>"}
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    if template:
        (folder / "chat_template.jinja").write_text(TEMPLATE)


def token_id(text: str | int) -> int:
    """The id of a special token, or of a byte."""
    named = (*SPECIAL, *THINK)
    return 256 + named.index(text) if text in named else list(SYMBOLS.values()).index(text)


def _flat(target: Target) -> None:
    target.slots()["lm_head.weight"].zero_()


def _overflow(target: Target) -> None:
    target.slots()["lm_head.weight"].fill_(3e38)


def _cycle(target: Target) -> None:
    """Layers add nothing, so a position sees its own token, and the head maps that to the next."""
    slots = target.slots()
    for name, slot in slots.items():
        if name.endswith(MIXERS):
            slot.zero_()
    slots["norm.weight"].zero_()
    embedding, head = slots["embed_tokens.weight"], slots["lm_head.weight"]
    embedding.copy_(torch.randn(embedding.shape, generator=torch.Generator().manual_seed(0)))
    head.zero_()
    text = CYCLE.encode()
    follows = [*zip(text, text[1:] + text[:1], strict=True), (ord("\n"), text[0])]
    for now, then in [*follows, (ord("!"), "<|im_end|>")]:
        head[token_id(then)] += embedding[token_id(now)]


HEADS: dict[str, Callable[[Target], None]] = {
    "random": lambda _: None,
    "flat": _flat,
    "cycle": _cycle,
    "overflow": _overflow,
}
