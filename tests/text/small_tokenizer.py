"""A small tokenizer with the traits of Qwen's, trained where it is needed."""

import json

import tokenizers
from tokenizers import AddedToken, decoders, models, normalizers, pre_tokenizers, trainers

SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
# Written as text, not in the byte alphabet. The last two can be read in it all the same, as " odd"
# and as the lone byte ff; tokenizers reads them so.
ADDED = ["<think>", "</think>", "two words", "naïve€", "Ġodd", "ÿ"]

CORPUS = [
    "The quick brown fox jumps over the lazy dog. The dog does not mind, and the fox is gone.",
    "def add(a, b):\n    return a + b\n\n\nprint(add(1, 2))\n" * 2,
    "Grüße aus Köln, naïve façade, déjà vu; 中文字符和日本語のテキスト; 👩‍👩‍👧 🎉 🎉 €100",
    "assistant user system tool <tool_call> </tool_call> 0123456789 the the the and and",
] * 5

TEMPLATE = """
{%- macro text_of(content) %}
    {%- if content is string %}
        {{- content }}
    {%- elif content is iterable %}
        {%- for part in content %}
            {%- if part.type != 'text' %}
                {%- continue %}
            {%- endif %}
            {{- part.text }}
        {%- endfor %}
    {%- endif %}
{%- endmacro %}
{%- if tools %}
    {{- '<|im_start|>system\\n# Tools, as of ' + strftime_now('%Y') + '\\n' }}
    {%- for tool in tools %}
        {{- tool | tojson }}
        {{- '\\n' + tool | tojson(indent=2) }}
    {%- endfor %}
    {{- '<|im_end|>\\n' }}
{%- endif %}
{%- set state = namespace(users=0) %}
{%- for message in messages %}
    {%- if message.role == 'system' and not loop.first %}
        {{- raise_exception('A system message must come first.') }}
    {%- elif message.role == 'user' %}
        {%- set state.users = state.users + 1 %}
    {%- endif %}
    {{- '<|im_start|>' + message.role + '\\n' }}
    {% generation %}
    {%- set said = text_of(message.content) | trim %}
    {%- if message.reasoning_content is defined %}
        {{- '<think>\\n' + message.reasoning_content + '\\n</think>\\n\\n' }}
    {%- endif %}
    {{- said }}
    {%- for call in message.tool_calls or [] %}
        {{- '\\n<tool_call>\\n' + call.function | tojson + '\\n</tool_call>' }}
    {%- endfor %}
    {% endgeneration %}
    {{- '<|im_end|>\\n' }}
{%- endfor %}
{%- if state.users == 0 %}
    {{- raise_exception('No user message.') }}
{%- endif %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
    {%- if enable_thinking is defined and enable_thinking is false %}
        {{- '<think>\\n\\n</think>\\n\\n' }}
    {%- else %}
        {{- '<think>\\n' }}
    {%- endif %}
{%- endif %}
{%- if documents is defined and documents is none %}{{ 'no documents' }}{% endif %}
{%- if mood is defined %}{{ mood }}{{ eos_token }}{{ pad_token }}{% endif %}
"""

CONFIG = {
    "tokenizer_class": "PreTrainedTokenizerFast",
    "eos_token": "<|im_end|>",
    "pad_token": {"content": "<|endoftext|>", "__type": "AddedToken"},
    "bos_token": None,
    "additional_special_tokens": ["<|im_start|>", "<|im_end|>"],
    "clean_up_tokenization_spaces": False,
    "chat_template": TEMPLATE,
}


def small_bpe() -> tokenizers.Tokenizer:
    """A byte-level BPE of 600 tokens, with Qwen's normaliser and decoder."""
    backend = tokenizers.Tokenizer(models.BPE())
    backend.normalizer = normalizers.NFC()
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=600,
        show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
    )
    backend.train_from_iterator(CORPUS, trainer)
    backend.add_special_tokens(SPECIAL)
    backend.add_tokens([AddedToken(text, normalized=False) for text in ADDED])
    return backend


def write(directory, backend=None, config=CONFIG):
    (backend or small_bpe()).save(str(directory / "tokenizer.json"))
    (directory / "tokenizer_config.json").write_text(json.dumps(config), encoding="utf-8")
    return directory
