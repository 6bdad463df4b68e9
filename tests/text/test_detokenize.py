from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small_tokenizer import ADDED, SPECIAL
from tokenizers import pre_tokenizers

from hybridspec.text.detokenize import SYMBOLS, Detokenizer

TEXTS = [
    "👩‍👩‍👧 🎉",
    "中文 naïve€ two words",
    "déjà vu <|im_end|>",
    "a\u0301 e\u0301",
    "\ufffd",
    "\x00\x7f",
    "Ġodd é",
]


def stream(tokenizer, blocks):
    reader = tokenizer.detokenizer()
    pieces = [reader.push(block) for block in blocks]
    return [*pieces, reader.flush()]


def blocks_of(ids, cuts):
    borders = [0, *sorted(cut % (len(ids) + 1) for cut in cuts), len(ids)]
    return [ids[a:b] for a, b in pairwise(borders)]


@settings(max_examples=500, deadline=None)
@given(
    ids=st.lists(st.integers(0, 660), max_size=60), cuts=st.lists(st.integers(0, 60), max_size=12)
)
def test_pieces_of_random_ids_join_to_the_decoding(tokenizer, ids, cuts):
    """Ids above 609 have no token; most sequences hold broken UTF-8."""
    assert "".join(stream(tokenizer, blocks_of(ids, cuts))) == tokenizer.decode(ids)


@settings(max_examples=300, deadline=None)
@given(
    text=st.one_of(
        st.text(max_size=30), st.lists(st.sampled_from([*TEXTS, *ADDED, *SPECIAL])).map("".join)
    ),
    cuts=st.lists(st.integers(0, 60), max_size=12),
)
def test_pieces_of_real_text_join_to_it(tokenizer, text, cuts):
    ids = tokenizer.encode(text)
    joined = "".join(stream(tokenizer, blocks_of(ids, cuts)))
    assert joined == tokenizer.decode(ids)
    assert joined.count("\ufffd") == text.count("\ufffd") + text.count("ÿ")


@settings(max_examples=300, deadline=None)
@given(data=st.lists(st.sampled_from(["é", "中", "🎉", "a", "\ufffd"]), min_size=1, max_size=12))
def test_a_character_comes_with_its_last_byte_and_not_before(data):
    """One token a byte: the text so far is always the whole characters so far."""
    raw = "".join(data).encode()
    reader = Detokenizer(lambda byte: bytes([byte]))
    so_far = ""
    for n, byte in enumerate(raw, start=1):
        so_far += reader.push([byte])
        assert so_far == raw[:n].decode(errors="ignore")
    assert reader.flush() == ""


def test_every_token_alone_equals_its_decoding(tokenizer):
    for token_id in range(tokenizer.vocab_size + 3):
        assert "".join(stream(tokenizer, [[token_id]])) == tokenizer.decode([token_id])


def test_special_tokens_have_no_text_and_do_not_part_a_character(tokenizer):
    first, second = (tokenizer._backend.token_to_id(symbol) for symbol in "Ã©")
    end = tokenizer.eos_token_id
    assert stream(tokenizer, [[first], [end], [second], [end]]) == ["", "", "é", "", ""]
    assert tokenizer.decode([first, end, second, end]) == "é"


def test_an_unfinished_character_is_let_out_at_the_end(tokenizer):
    ids = [tokenizer._backend.token_to_id(symbol) for symbol in "ðŁĶ"]  # three bytes of four
    assert stream(tokenizer, [ids]) == ["", "\ufffd"]
    assert tokenizer.decode(ids) == "\ufffd"


def test_a_long_run_of_invalid_bytes_flows():
    """Case A56: every token is read once, and its U+FFFD comes at once."""
    count = 200_000
    asked = 0

    def token_bytes(_):
        nonlocal asked
        asked += 1
        return b"\x80"

    reader = Detokenizer(token_bytes)
    assert all(reader.push((7,)) == "\ufffd" for _ in range(count))
    assert asked == count
    assert reader.flush() == ""


@pytest.mark.parametrize("lead", [b"\xc3", b"\xe4", b"\xf0"])
def test_a_run_of_leading_bytes_lags_one_byte(lead):
    reader = Detokenizer(lambda _: lead)
    assert [reader.push((0,)) for _ in range(50)] == [""] + ["\ufffd"] * 49
    assert reader.flush() == "\ufffd"


def test_the_alphabet_is_that_of_tokenizers():
    assert set(SYMBOLS) == set(pre_tokenizers.ByteLevel.alphabet())
    assert sorted(SYMBOLS.values()) == list(range(256))
