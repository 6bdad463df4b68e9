from __future__ import annotations

import pytest

from hybridspec.errors import RequestError
from hybridspec.text.messages import as_text

USER = {"role": "user", "content": "Hello"}
CALL = [{"function": {"name": "search", "arguments": {}}}]


def parts(*texts: str) -> list[dict[str, str]]:
    return [{"type": "text", "text": text} for text in texts]


def test_parts_of_text_are_joined_as_the_templates_of_qwen_do(tokenizer):
    """The small tokenizer's template joins parts like Qwen's: here or there is the same."""
    for texts in (("Look: ", "what?"), ("one",), ("", "a\n", " b ")):
        message = {"role": "user", "content": parts(*texts)}
        (plain,) = as_text([message])
        assert plain == {"role": "user", "content": "".join(texts)}
        assert tokenizer.render_chat([plain]) == tokenizer.render_chat([message])


def test_what_is_not_content_is_kept_and_the_input_left_alone():
    message = {"role": "tool", "content": parts("4"), "tool_call_id": "x"}
    assert as_text([USER, message]) == [USER, message | {"content": "4"}]
    assert message["content"] == parts("4")


@pytest.mark.parametrize("message", [{}, {"content": None}, {"content": []}])
def test_only_a_tool_call_goes_without_content(message):
    call = {"role": "assistant", "tool_calls": CALL, **message}
    if message.get("content") != []:
        assert as_text([call]) == [call | {"content": ""}]
    for role in ("user", "system", "assistant", "tool"):
        with pytest.raises(RequestError, match=rf"Message 1 \({role}\) has no content"):
            as_text([USER, {"role": role, **message}])


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (5, "content of the type int; expected text"),
        ({"type": "text", "text": "x"}, "content of the type dict; expected text"),
        (b"x", "content of the type bytes; expected text"),
        (["x"], "content of the type 'str'; only text"),
        ([None], "content of the type 'NoneType'; only text"),
        ([{"type": "image"}], "content of the type 'image'; only text"),
        ([{"text": "x"}], "content of the type None; only text"),
        ([{"type": "text"}], "part of text without a text"),
        ([{"type": "text", "text": None}], "part of text without a text"),
    ],
)
def test_what_is_no_text_is_refused(content, told):
    with pytest.raises(RequestError, match=f"Message 1 has .*{told}"):
        as_text([USER, {"role": "user", "content": content}])


def test_roles_are_checked_first():
    with pytest.raises(RequestError, match="Message 0 has no role"):
        as_text([{"content": 5}])
    with pytest.raises(RequestError, match="conversation is empty"):
        as_text([])
