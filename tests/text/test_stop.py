from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hybridspec.core import SamplingParams
from hybridspec.errors import RequestError
from hybridspec.text.detokenize import Detokenizer
from hybridspec.text.stop import Emission, OutputStream

# Tokens with bytes that meet: parts of 中 (e4 b8 ad), a byte that is never UTF-8, one without text.
BYTES = [
    b"a",
    b"b",
    b"ab",
    b"ba",
    b"c",
    b"\xe4",
    b"\xb8",
    b"\xad",
    "中".encode(),
    b"\xb8\xada",
    b"\xff",
    b"b\xe4",
    b"",
]
STOP, END = 100, 101
ANY_TOKEN = st.sampled_from([*range(len(BYTES)), *range(len(BYTES)), STOP, END])
ANY_STOP = st.text(st.sampled_from("abc中\ufffd"), min_size=1, max_size=4)


def token_bytes(token):
    return BYTES[token] if token < len(BYTES) else b"<stop>"


def stream(limit=1000, eos=(), **params):
    return OutputStream(Detokenizer(token_bytes), SamplingParams(**params), eos, limit)


def run(output, blocks):
    """Kept tokens, text and reason of pushing blocks until one ends the answer."""
    kept, text, reason = [], "", None
    for block in blocks:
        emission = output.push(block)
        kept += block[: emission.kept]
        text += emission.text
        reason = emission.finish_reason
        if reason is not None:
            break
        assert emission.kept == len(block)
    last = output.finish()
    assert last.kept == 0
    return kept, text + last.text, last.finish_reason


def whole_characters(raw):
    """`raw` without the bytes at its end that could still become a character."""
    for length in (3, 2, 1):
        tail = raw[-length:]
        try:
            tail.decode()
        except UnicodeDecodeError as error:
            if len(tail) == length and error.start == 0 and "end of data" in error.reason:
                return raw[:-length]
    return raw


def cut(text, strings):
    """The text before the first stop string, or None without one."""
    places = [text.find(string) for string in strings if string in text]
    return text[: min(places)] if places else None


def one_by_one(tokens, stop_ids, strings, limit):
    """The rule as a definition: at each token, look at everything said so far from the start."""
    for n, token in enumerate(tokens, start=1):
        raw = b"".join(map(token_bytes, tokens[: n - (token in stop_ids)]))
        ended = token in stop_ids or n == limit
        seen = raw if token in stop_ids else whole_characters(raw)
        found = cut(seen.decode(errors="replace"), strings)
        if found is None and ended:
            found = cut(raw.decode(errors="replace"), strings)
        if found is not None:
            return tokens[:n], found, "stop"
        if ended:
            reason = "stop" if token in stop_ids else "length"
            return tokens[:n], raw.decode(errors="replace"), reason
    text = b"".join(map(token_bytes, tokens)).decode(errors="replace")
    found = cut(text, strings)
    return (tokens, text, "abort") if found is None else (tokens, found, "stop")


def split(tokens, cuts):
    borders = [0, *sorted(c % (len(tokens) + 1) for c in cuts), len(tokens)]
    return [tokens[a:b] for a, b in pairwise(borders)]


@settings(max_examples=1500, deadline=None)
@given(
    tokens=st.lists(ANY_TOKEN, max_size=24),
    cuts=st.lists(st.integers(0, 24), max_size=8),
    strings=st.lists(ANY_STOP, max_size=3),
    stop_ids=st.sets(st.sampled_from([STOP, END]), max_size=2),
    limit=st.integers(1, 26),
)
def test_any_split_into_blocks_gives_what_one_token_at_a_time_gives(
    tokens, cuts, strings, stop_ids, limit
):
    output = stream(limit, eos=stop_ids, stop=tuple(strings))
    assert run(output, split(tokens, cuts)) == one_by_one(tokens, stop_ids, strings, limit)


@settings(max_examples=500, deadline=None)
@given(
    tokens=st.lists(st.integers(0, len(BYTES) - 1), max_size=24),
    strings=st.lists(ANY_STOP, max_size=3),
)
def test_no_more_is_held_back_than_may_become_a_stop_string(tokens, strings):
    output = stream(stop=tuple(strings))
    text = ""
    for n, token in enumerate(tokens, start=1):
        emission = output.push([token])
        text += emission.text
        if emission.finish_reason:
            break
        raw = b"".join(map(token_bytes, tokens[:n]))
        said = whole_characters(raw).decode(errors="replace")
        assert said.startswith(text)
        held = said[len(text) :]
        assert held == "" or any(s.startswith(held) and s != held for s in strings)


# ---- cases from other engines


@pytest.mark.parametrize("blocks", [[[10, 11, STOP, 20, 21, 22]], [[10, 11], [STOP, 20], [21, 22]]])
def test_a01_a_stop_inside_the_budget_wins_over_a_length_cap_in_the_same_block(blocks):
    output = OutputStream(None, SamplingParams(), [STOP], max_tokens=5)
    assert run(output, blocks) == ([10, 11, STOP], "", "stop")


def test_a01_a_stop_behind_the_cap_is_not_seen():
    output = OutputStream(None, SamplingParams(), [STOP], max_tokens=5)
    assert output.push([10, 11, 12, 13, 14, STOP]) == Emission(5, "", "length")


def test_a01_at_the_same_token_stop_wins():
    by_id = OutputStream(None, SamplingParams(), [STOP], max_tokens=3)
    assert by_id.push([10, 11, STOP]) == Emission(3, "", "stop")
    assert stream(2, stop=("b",)).push([0, 1]) == Emission(2, "a", "stop")
    # Token 11 is "b" and half a character, which must not follow the text that was cut.
    assert stream(2, stop=("b",)).push([0, 11]) == Emission(2, "a", "stop")


def test_a01_a_stop_string_inside_the_budget():
    """`bc` ends at the fourth token; the block also crosses the cap of 5, and holds a stop id."""
    output = stream(5, eos=[STOP], stop=("bc",))
    assert output.push([0, 0, 1, 4, 0, STOP, 0]) == Emission(4, "aa", "stop")


@pytest.mark.parametrize("place", range(1, 17))
def test_a04_eos_at_every_place_of_an_accepted_block(place):
    block = [0] * 16
    block[place - 1] = END
    together = run(stream(eos=[END]), [block])
    assert together == run(stream(eos=[END]), [[token] for token in block])
    assert together == (block[:place], "a" * (place - 1), "stop")


def test_a06_every_end_token_ends_and_no_other_does():
    """`<|im_start|>` (248045) is not an end token; 248046 and 248044 both are."""
    for end in (248046, 248044):
        output = OutputStream(None, SamplingParams(), (248046, 248044), max_tokens=100)
        assert output.push([1, 248045, 2, end, 3]) == Emission(4, "", "stop")


def test_a06_further_stop_ids_stand_beside_the_models_own():
    for token in (7, STOP):
        assert stream(eos=[STOP], stop_token_ids=(7, 8)).push([0, token, 1]).kept == 2


def test_ignore_eos_leaves_the_requests_own_stop_ids():
    output = stream(eos=[STOP], ignore_eos=True, stop_token_ids=(END,))
    assert run(output, [[0, STOP, 1, END, 2]]) == ([0, STOP, 1, END], "a<stop>b", "stop")


@pytest.mark.parametrize("limit", [1, 2, 15, 16, 17, 31])
@pytest.mark.parametrize("width", [1, 16])
def test_a08_exactly_the_tokens_asked_for(limit, width):
    blocks = [[0] * width] * 40
    assert run(stream(limit), blocks) == ([0] * limit, "a" * limit, "length")


# ---- stop strings


@pytest.mark.parametrize(
    ("tokens", "strings", "kept", "text"),
    [
        ([0, 1, 4, 0], ("bc",), 3, "a"),  # across tokens
        ([0, 2, 1], ("b",), 2, "aa"),  # inside a token: its first half is text, the token is kept
        ([0, 1, 0, 1, 4], ("abc",), 5, "ab"),  # a false start, then the string
        ([0, 0, 0, 1], ("aab",), 4, "a"),  # a false start that overlaps the string
        ([0, 1, 4], ("ab", "abc"), 2, ""),  # one a prefix of the other: the shorter ends it
        ([0, 1, 4], ("abcc", "bc"), 3, "a"),  # the longer is never completed
        ([2, 8], ("b中", "ab中"), 2, ""),  # both end at one token: the one that begins first
        ([0, 5, 6, 7, 1], ("中",), 4, "a"),  # its bytes come one by one
        ([0, 5, 9, 1], ("a", "中a"), 1, ""),
        ([5, 0, 1], ("\ufffda",), 2, ""),  # half a character that never came
    ],
)
def test_stop_strings(tokens, strings, kept, text):
    for blocks in ([tokens], [[token] for token in tokens]):
        assert run(stream(stop=strings), blocks) == (tokens[:kept], text, "stop")


def test_held_text_is_let_out_when_it_cannot_be_a_stop_string():
    output = stream(stop=("abc",))
    assert [output.push([token]).text for token in (0, 1, 1, 0, 0)] == ["", "", "abb", "", "a"]
    assert output.finish() == Emission(0, "a", "abort")


@pytest.mark.parametrize("last", [Emission(1, "ab", "length"), Emission(1, "ab", "stop")])
def test_held_text_is_let_out_at_the_end(last):
    output = stream(2, eos=[STOP], stop=("abc",))
    output.push([2 if last.finish_reason == "stop" else 0])
    assert output.push([STOP if last.finish_reason == "stop" else 1]) == last


def test_half_a_character_is_let_out_at_the_end_and_may_end_a_stop_string():
    assert run(stream(2), [[0, 5]]) == ([0, 5], "a\ufffd", "length")
    assert run(stream(2, stop=("\ufffd",)), [[0, 5]]) == ([0, 5], "a", "stop")


# ---- use


def test_a_finished_answer_takes_nothing_more():
    output = stream(2)
    assert output.push([0, 1, 2]) == Emission(2, "ab", "length")
    assert output.push([0]) == Emission(0, "", "length")
    assert output.finish() == Emission(0, "", "length")


def test_an_interrupt_lets_out_what_was_held_once():
    output = stream(stop=("abc",))
    assert output.push([4, 0, 1]) == Emission(3, "c")
    assert output.finish() == Emission(0, "ab", "abort")
    assert output.finish() == Emission(0, "", "abort")


def test_what_cannot_be_honoured_is_refused():
    with pytest.raises(RequestError, match="need a tokenizer"):
        OutputStream(None, SamplingParams(stop=("x",)), (), max_tokens=1)
    with pytest.raises(RequestError, match="at least 1"):
        stream(0)


def test_with_the_real_detokenizer(tokenizer):
    """Text cut at a stop string equals the one-shot decoding cut there, for every block width."""
    text = "def add(a, b):\n    return a + b\n\n\nprint(add(1, 2))"
    ids = tokenizer.encode(text)
    params = SamplingParams(stop=("\n\n\n", "print"))
    for width in range(1, 17):
        blocks = [ids[i : i + width] for i in range(0, len(ids), width)]
        kept, said, reason = run(OutputStream(tokenizer.detokenizer(), params, (), 500), blocks)
        assert said == text[: text.index("\n\n\n")]
        assert reason == "stop"
        assert ("\n\n\n" in tokenizer.decode(kept)) > ("\n\n\n" in tokenizer.decode(kept[:-1]))
