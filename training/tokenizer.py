"""Train the pair's tokenizer: byte-level BPE, Qwen's splits, special tokens and chat format.

    python -m training.tokenizer --train-dir DIR --out DIR

The 8,128 base tokens are followed by Qwen's 33 special tokens; the embedding has 8,192 rows, so
that row 8,161, the first one no text can reach, is the drafter's mask.
"""

from __future__ import annotations

import argparse
import json
import lzma
import random
from collections.abc import Iterator
from pathlib import Path

from tokenizers import (
    AddedToken,
    Regex,
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    trainers,
)

BASE_VOCAB = 8128
ROWS = 8192
SPECIALS = [
    "<|endoftext|>",
    "<|im_start|>",
    "<|im_end|>",
    "<|object_ref_start|>",
    "<|object_ref_end|>",
    "<|box_start|>",
    "<|box_end|>",
    "<|quad_start|>",
    "<|quad_end|>",
    "<|vision_start|>",
    "<|vision_end|>",
    "<|vision_pad|>",
    "<|image_pad|>",
    "<|video_pad|>",
    "<tool_call>",
    "</tool_call>",
    "<|fim_prefix|>",
    "<|fim_middle|>",
    "<|fim_suffix|>",
    "<|fim_pad|>",
    "<|repo_name|>",
    "<|file_sep|>",
    "<tool_response>",
    "</tool_response>",
    "<think>",
    "</think>",
    "<|audio_start|>",
    "<|audio_end|>",
    "<tts_pad>",
    "<tts_text_bos>",
    "<tts_text_eod>",
    "<tts_text_bos_single>",
    "<|audio_pad|>",
]
PLAIN = {
    "<tool_call>",
    "</tool_call>",
    "<tool_response>",
    "</tool_response>",
    "<think>",
    "</think>",
}
MASK_ID = BASE_VOCAB + len(SPECIALS)
PATTERN = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}|"
    r" ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
# How many bytes of each file the merges are learnt from: the answers' share of use, not of disk.
SHARES = {
    "code_pairs_pypi": 12e6,
    "code_mbpp_train": 3e5,
    "math_gsm8k_train": 4e6,
    "qa_rag_factbook": 3e6,
    "qa_wordnet": 2e6,
    "howto_tldr": 2e6,
    "summ_qmsum_scitldr": 4e6,
    "dialogue_sgd": 5e6,
    "docs_debian": 4e6,
    "stories_standardebooks": 14e6,
}
CHAT_TEMPLATE = """\
{%- if tools %}
{{- '<|im_start|>system\\n' }}
{%- if messages[0].role == 'system' %}
{{- messages[0].content + '\\n\\n' }}
{%- endif %}
{{- '# Tools\\n\\nFunctions you may call, one JSON signature a line:\\n<tools>' }}
{%- for tool in tools %}
{{- '\\n' + (tool | tojson) }}
{%- endfor %}
{{- '\\n</tools>\\n\\nTo call: <tool_call> {"name": ..., "arguments": ...} </tool_call>' }}
{{- '<|im_end|>\\n' }}
{%- elif messages[0].role == 'system' %}
{{- '<|im_start|>system\\n' + messages[0].content + '<|im_end|>\\n' }}
{%- endif %}
{%- set ns = namespace(last=-1) %}
{%- for message in messages %}
{%- if message.role == 'user' %}
{%- set ns.last = loop.index0 %}
{%- endif %}
{%- endfor %}
{%- for message in messages %}
{%- if message.role == 'user' %}
{{- '<|im_start|>user\\n' + message.content + '<|im_end|>\\n' }}
{%- elif message.role == 'assistant' %}
{%- set answer = message.content %}
{%- set thought = message.reasoning_content | default('', true) %}
{%- if '</think>' in answer %}
{%- set thought = answer.split('</think>')[0].split('<think>')[-1].strip('\\n') %}
{%- set answer = answer.split('</think>')[-1].lstrip('\\n') %}
{%- endif %}
{{- '<|im_start|>assistant\\n' }}
{%- if loop.index0 > ns.last %}
{{- '<think>\\n' + thought + '\\n</think>\\n\\n' }}
{%- endif %}
{{- answer }}
{%- for call in message.tool_calls | default([], true) %}
{{- '\\n<tool_call>\\n' + ((call.function | default(call)) | tojson) + '\\n</tool_call>' }}
{%- endfor %}
{{- '<|im_end|>\\n' }}
{%- elif message.role == 'tool' %}
{{- '<|im_start|>user\\n<tool_response>\\n' + message.content + '\\n</tool_response>' }}
{{- '<|im_end|>\\n' }}
{%- elif not (message.role == 'system' and loop.first) %}
{{- raise_exception('A message has the role ' ~ message.role ~ ', which has no place here.') }}
{%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
{{- '<|im_start|>assistant\\n<think>\\n' }}
{%- if enable_thinking is defined and enable_thinking is false %}
{{- '\\n</think>\\n\\n' }}
{%- endif %}
{%- endif %}"""


def sample_texts(folder: Path) -> Iterator[str]:
    """Yield texts of the training files until each file's share is reached."""
    for name, share in SHARES.items():
        with lzma.open(folder / f"{name}.jsonl.xz", "rt", encoding="utf-8") as lines:
            rows = [json.loads(line) for line in lines]
        random.Random(0).shuffle(rows)
        used = 0
        for row in rows:
            parts = [m["content"] for m in row["messages"]] if "messages" in row else [row["text"]]
            yield from parts
            used += sum(map(len, parts))
            if used > share:
                break


def train(folder: Path) -> Tokenizer:
    """Learn the merges and add the special tokens."""
    tok = Tokenizer(models.BPE())
    tok.normalizer = normalizers.NFC()
    split = pre_tokenizers.Split(Regex(PATTERN), behavior="isolated", invert=False)
    level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tok.pre_tokenizer = pre_tokenizers.Sequence([split, level])
    tok.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=BASE_VOCAB, initial_alphabet=alphabet, max_token_length=24, show_progress=False
    )
    tok.train_from_iterator(sample_texts(folder), trainer)
    if tok.get_vocab_size() != BASE_VOCAB:
        raise SystemExit(f"The merges gave {tok.get_vocab_size()} tokens, expected {BASE_VOCAB}.")
    tok.add_tokens([AddedToken(s, special=s not in PLAIN, normalized=False) for s in SPECIALS])
    return tok


def save(tok: Tokenizer, out: Path) -> None:
    """Write tokenizer.json, tokenizer_config.json and generation_config.json."""
    out.mkdir(parents=True, exist_ok=True)
    tok.save(str(out / "tokenizer.json"), pretty=False)
    added = {
        str(BASE_VOCAB + i): {
            "content": s,
            "lstrip": False,
            "normalized": False,
            "rstrip": False,
            "single_word": False,
            "special": s not in PLAIN,
        }
        for i, s in enumerate(SPECIALS)
    }
    config = {
        "add_prefix_space": False,
        "added_tokens_decoder": added,
        "bos_token": None,
        "chat_template": CHAT_TEMPLATE,
        "clean_up_tokenization_spaces": False,
        "eos_token": "<|im_end|>",
        "errors": "replace",
        "model_max_length": 32768,
        "pad_token": "<|endoftext|>",
        "tokenizer_class": "Qwen2Tokenizer",
        "unk_token": None,
    }
    end, stop = tok.token_to_id("<|endoftext|>"), tok.token_to_id("<|im_end|>")
    generation = {
        "bos_token_id": end,
        "do_sample": True,
        "eos_token_id": [stop, end],
        "pad_token_id": end,
        "temperature": 0.7,
        "top_k": 20,
        "top_p": 0.8,
    }
    for name, body in (("tokenizer_config", config), ("generation_config", generation)):
        text = json.dumps(body, indent=2, ensure_ascii=False) + "\n"
        (out / f"{name}.json").write_text(text, encoding="utf-8")


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--train-dir", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    save(train(args.train_dir), args.out)


if __name__ == "__main__":
    main()
