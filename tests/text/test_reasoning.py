"""Any cut gives what one push gives; what one push gives is said case by case."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hybridspec.text.reasoning import ReasoningCounter, ReasoningSplitter, thought_after

PLACES = ("open", "closed", "unknown")
PART = st.sampled_from(["<think>", "</think>", "<th", "</", "ink>", "\n", " ", "a", "é", "<"])
TEXT = st.lists(PART, max_size=12).map("".join)


def split(thought: str, pieces: list[str]) -> tuple[str, str]:
    splitter = ReasoningSplitter(thought)
    parts = [*map(splitter.push, pieces), splitter.finish()]
    return "".join(p.reasoning for p in parts), "".join(p.content for p in parts)


def cut(text, places):
    borders = [0, *sorted(place % (len(text) + 1) for place in places), len(text)]
    return [text[a:b] for a, b in pairwise(borders)]


@pytest.mark.parametrize(
    ("thought", "text", "reasoning", "content"),
    [
        ("open", "I think.\n</think>\n\nHello\n", "I think.", "Hello\n"),
        ("open", "I think.</think>Hello", "I think.", "Hello"),
        ("open", "\n\nOne\n\nTwo\n\n</think>\n\n  Hello", "One\n\nTwo", "  Hello"),
        ("open", "</think>\n\nHello </think> again", "", "Hello </think> again"),
        ("open", "without an end\n\n", "without an end\n\n", ""),
        ("open", "half an end</thi", "half an end</thi", ""),
        ("open", "a </thinker> thinks</think>", "a </thinker> thinks", ""),
        ("open", "", "", ""),
        ("closed", "\n<think> is a tag\n", "", "\n<think> is a tag\n"),
        ("unknown", "<think>\nI think.\n</think>\n\nHello", "I think.", "Hello"),
        ("unknown", " \n<think>I think.", "I think.", ""),
        ("unknown", " \nHello <think>", "", " \nHello <think>"),
        ("unknown", "<thi", "", "<thi"),
        ("unknown", "\n", "", "\n"),
    ],
)
def test_what_is_thought_and_what_is_said(thought, text, reasoning, content):
    assert split(thought, [text]) == split(thought, list(text)) == (reasoning, content)


@settings(max_examples=1000, deadline=None)
@given(st.sampled_from(PLACES), TEXT, st.lists(st.integers(0, 80), max_size=8))
def test_any_cut_gives_what_one_push_gives(thought, text, places):
    assert split(thought, cut(text, places)) == split(thought, [text])


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(PLACES), TEXT)
def test_nothing_but_markers_and_line_ends_is_lost(thought, text):
    reasoning, content = split(thought, [text])
    kept = (reasoning + content).replace("\n", "")
    plain = text.replace("\n", "")
    markers = (plain, plain.replace("<think>", "", 1), plain.replace("</think>", "", 1))
    both = plain.replace("<think>", "", 1).replace("</think>", "", 1)
    assert kept.lstrip() in [one.lstrip() for one in (*markers, both)]


def test_no_half_marker_is_let_out_and_no_more_is_held():
    splitter = ReasoningSplitter("open")
    texts = ["a", "\n", "b", "</", "th", "e", "\n</think", ">", "\n", "\nc"]
    parts = [splitter.push(text) for text in texts]
    assert [p.reasoning for p in parts] == ["a", "", "\nb", "", "", "</the", "", "", "", ""]
    assert [p.content for p in parts] == [""] * 9 + ["c"]


@pytest.mark.parametrize(
    ("end", "thought"),
    [
        ("<|im_start|>assistant\n<think>\n", "open"),
        ("<|im_start|>assistant\n<think>\n\n</think>\n\n", "closed"),
        ("<|im_start|>assistant\n", "unknown"),
        ("</think> is a tag<|im_end|>\n<|im_start|>assistant\n", "unknown"),
        ("", "unknown"),
    ],
)
def test_where_an_answer_begins(end, thought):
    assert thought_after(end) == thought


# ---- counting


def count(token_bytes, thought, blocks) -> int:
    counter = ReasoningCounter(token_bytes, thought)
    for block in blocks:
        counter.push(block)
    return counter.count


def test_a09_a_block_that_crosses_the_end_of_the_thought_and_the_cap(tokenizer):
    """Never more than what was given; what follows the marker in its block is not counted."""
    ids = tokenizer.encode("I think, so I am.\n</think>\n\nHello, this is said")
    end = ids.index(tokenizer.encode("</think>")[0]) + 1
    assert 1 < end < len(ids)
    for cap in range(len(ids) + 1):
        for width in (1, 2, 3, 16):
            kept = ids[:cap]
            blocks = [kept[i : i + width] for i in range(0, cap, width)]
            assert count(tokenizer.token_bytes, "open", blocks) == min(cap, end)
            assert count(tokenizer.token_bytes, "closed", blocks) == 0


def test_a_marker_in_many_tokens():
    for marker in (
        [b"<", b"/", b"thi", b"", b"nk>"],
        [b"a</thin", b"k>b"],
        [*map(bytes, [[c] for c in b"</think>"])],
    ):
        tokens = [b"a", *marker, b"b", b"</think>"]
        counted = count(tokens.__getitem__, "open", [[i] for i in range(len(tokens))])
        assert counted == 1 + len(marker)


BYTES = [b"<think>", b"</think>", b"<", b"/", b"thi", b"nk>", b"think>", b"\n", b"a", b"\xe4", b""]


@settings(max_examples=1000, deadline=None)
@given(
    st.sampled_from(PLACES),
    st.lists(st.integers(0, len(BYTES) - 1), max_size=16),
    st.lists(st.integers(0, 80), max_size=8),
)
def test_the_count_is_that_of_the_shortest_beginning_whose_text_ends_the_thought(
    thought, ids, places
):
    def text(tokens):
        return b"".join(BYTES[i] for i in tokens).decode(errors="replace")

    opened = thought == "open" or (
        thought == "unknown" and text(ids).lstrip().startswith("<think>")
    )
    body = text(ids).lstrip()[7:] if thought == "unknown" else text(ids)
    expected = len(ids) if opened else 0
    if opened and "</think>" in body:
        skipped = text(ids).index("<think>") + 7 if thought == "unknown" else 0
        ends = (n for n in range(len(ids) + 1) if "</think>" in text(ids[:n])[skipped:])
        expected = next(ends)
    assert count(BYTES.__getitem__, thought, cut(ids, places)) == expected
