from __future__ import annotations

import pytest
from call_texts import TOOLS, tool

from hybridspec.errors import RequestError
from hybridspec.text.tools import check_tools


def test_openai_s_form_is_taken():
    check_tools(TOOLS)
    check_tools([])
    check_tools(({"function": {"name": "f"}},))
    check_tools([{"type": "function", "function": {"name": "f", "parameters": None}}])


DEEP: list = []
for _ in range(3000):
    DEEP = [DEEP]


@pytest.mark.parametrize(
    ("tools", "told"),
    [
        ("search", "The tools are 'search'; expected a list"),
        ({"name": "f"}, "expected a list"),
        (["search"], "Tool 0 is no function; expected an object such as"),
        ([{"name": "f"}], "Tool 0 is no function"),
        ([TOOLS[0], {"type": "web_search", "function": {"name": "f"}}], "Tool 1 is no function"),
        ([{"function": {}}], "Tool 0 has the name None"),
        ([{"function": {"name": " "}}], "Tool 0 has the name ' '"),
        ([{"function": {"name": "a>b"}}], "Tool 0 has the name 'a>b'"),
        ([{"function": {"name": "f\ud800"}}], r"Tool 0 has the name 'f\\ud800'"),
        (
            [{"function": {"name": "f", "parameters": [1]}}],
            "parameters of the type list",
        ),
        ([tool("f", x={1, 2})], r"Tool 0 \(f\) cannot be written as JSON"),
        ([tool("f", x=DEEP)], r"Tool 0 \(f\) cannot be written as JSON"),
        ([tool("f", x=float("nan"))], r"Tool 0 \(f\) cannot be written as JSON"),
        ([tool("f"), tool("f")], "Two tools have the name 'f'"),
    ],
)
def test_what_is_no_tool_is_refused(tools, told):
    with pytest.raises(RequestError, match=told):
        check_tools(tools)
