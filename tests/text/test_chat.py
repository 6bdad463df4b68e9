import pytest
from transformers import AutoTokenizer

from hybridspec.errors import CheckpointError, RequestError
from hybridspec.text.chat import ChatTemplate

USER = {"role": "user", "content": "What is 2 + 2?"}
TOOL = {
    "type": "function",
    "function": {
        "name": "search",
        "description": "Finds <b>things</b> & größere",
        "parameters": {"type": "object", "properties": {"query": {"type": "string"}}},
    },
}

CONVERSATIONS = {
    "one": [USER],
    "system": [{"role": "system", "content": "  Be brief.\n"}, USER],
    "turns": [
        USER,
        {"role": "assistant", "content": "4", "reasoning_content": "2 and 2"},
        {"role": "user", "content": 'And <|im_end|> 中文 "quotes" <b>&amp;</b>?'},
    ],
    "parts": [
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "Look: "},
                {"type": "image", "image": "x.png"},
                {"type": "text", "text": "what?"},
            ],
        }
    ],
    "tool call": [
        USER,
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"function": {"name": "search", "arguments": {"query": "ü <&>"}}}],
        },
        {"role": "tool", "content": '{"answer": 4}'},
    ],
    "empty": [{"role": "user", "content": ""}],
}

SETTINGS = [
    {},
    {"enable_thinking": True},
    {"enable_thinking": False},
    {"add_generation_prompt": False},
    {"tools": [TOOL, TOOL], "enable_thinking": False},
    {"mood": "calm"},
    {"mood": "calm", "eos_token": "<mine>"},
]


@pytest.fixture(scope="module")
def reference(tokenizer_dir):
    return AutoTokenizer.from_pretrained(tokenizer_dir)


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
@pytest.mark.parametrize("messages", CONVERSATIONS.values(), ids=CONVERSATIONS.keys())
def test_as_transformers(tokenizer, reference, messages, settings):
    asked = {"add_generation_prompt": True} | settings
    expected = reference.apply_chat_template(messages, tokenize=False, **asked)
    assert tokenizer.render_chat(messages, **settings) == expected
    ids = reference.apply_chat_template(messages, return_dict=False, **asked)
    assert tokenizer.encode(expected, add_special_tokens=False) == ids


def test_thinking_is_the_templates_own_default(tokenizer):
    assert "<|im_start|>assistant\n<think>\n" in tokenizer.render_chat([USER])
    closed = tokenizer.render_chat([USER], enable_thinking=False)
    assert "<|im_start|>assistant\n<think>\n\n</think>\n\n" in closed


@pytest.mark.parametrize(
    ("messages", "told"),
    [
        ([], "conversation is empty"),
        ([{"content": "x"}], "Message 0 has no role"),
        ([USER, "x"], "Message 1 has no role"),
        ([{"role": 3, "content": "x"}], "Message 0 has no role"),
        ([{"role": "system", "content": "x"}], "No user message"),
        ([USER, {"role": "system", "content": "x"}], "A system message must come first"),
        ([USER | {"tool_calls": 5}], "refuses these messages"),
    ],
)
def test_messages_that_do_not_fit(tokenizer, messages, told):
    with pytest.raises(RequestError, match=told):
        tokenizer.render_chat(messages)


@pytest.mark.parametrize(
    "source",
    [
        "{{ 'a' + 1 }}",
        "{{ nothing.at_all }}",
        "{{ messages.append(1) }}",
        "{{ ''.__class__.__mro__ }}",
        "{{ 1 // 0 }}",
    ],
)
def test_a_template_that_fails_is_told_as_a_sentence(source):
    with pytest.raises(RequestError, match="refuses these messages"):
        ChatTemplate(source, {}).render([USER])


@pytest.mark.parametrize("name", ["namespace", "range", "raise_exception", "strftime_now"])
def test_functions_of_templates_are_not_hidden(name):
    template = ChatTemplate("{{ other }}", {})
    with pytest.raises(RequestError, match=f"^The variable {name} is a function of every chat"):
        template.render([USER], **{name: 1})
    assert template.render([USER], other="name") == "name"


def test_what_the_template_says_has_one_end_mark(tokenizer):
    with pytest.raises(RequestError, match=r"must come first\. Check"):
        tokenizer.render_chat([USER, {"role": "system", "content": "x"}])


DEEP = [
    "{{ " + "(" * 3000 + "1" + ")" * 3000 + " }}",
    "{% for a in b %}" * 60 + "{% endfor %}" * 60,  # Python's own limit is 20
    "{{ " + "9" * 5000 + " }}",
]


@pytest.mark.parametrize("source", DEEP, ids=["brackets", "blocks", "digits"])
def test_a_template_that_only_python_refuses(source):
    with pytest.raises(CheckpointError, match="chat template cannot be read"):
        ChatTemplate(source, {})


@pytest.mark.parametrize("source", ["{% for %}", "{{", "{% generation %}", "{{ x | unknown }}"])
def test_a_template_that_is_none(source):
    with pytest.raises(CheckpointError, match="chat template cannot be read"):
        ChatTemplate(source, {})
