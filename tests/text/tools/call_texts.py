"""Texts with tool calls, the tools they call, and how the tests put pieces together."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import count, pairwise

from hybridspec.text.tools import Delta, ToolParser


def tool(name: str, **properties: object) -> dict:
    parameters = {"type": "object", "properties": properties}
    return {"type": "function", "function": {"name": name, "parameters": parameters}}


TOOLS = [
    tool(
        "write_file",
        path={"type": "string"},
        text={"type": "string"},
        mode={"type": "integer"},
        options={"type": "object"},
        tags={"type": "array", "items": {"type": "string"}},
        force={"type": "boolean"},
        share={"type": "number"},
        owner={"anyOf": [{"type": "string"}, {"type": "null"}]},
    ),
    tool("now"),
]

# An answer with two calls, as a Qwen3.5 model writes them.
RECORDED = (
    "I shall write the file, then look at the clock.\n\n"
    "<tool_call>\n<function=write_file>\n"
    "<parameter=path>\nnotes/größe 日本.md\n</parameter>\n"
    '<parameter=text>\n# "Title"\n\n\\n is a line end\t<b>&</b>\nand so on 🎉\n\n</parameter>\n'
    "<parameter=mode>\n420\n</parameter>\n"
    '<parameter=options>\n{"deep": {"a": [1, 2.5, null]}, "t": "x"}\n</parameter>\n'
    '<parameter=tags>\n["a", "b"]\n</parameter>\n'
    "<parameter=force>\nTrue\n</parameter>\n"
    "<parameter=share>\n0.5\n</parameter>\n"
    "<parameter=owner>\nNone\n</parameter>\n"
    "</function>\n</tool_call>\n"
    "<tool_call>\n<function=now>\n</function>\n</tool_call>"
)
RECORDED_CALLS = [
    (
        "write_file",
        {
            "path": "notes/größe 日本.md",
            "text": '# "Title"\n\n\\n is a line end\t<b>&</b>\nand so on 🎉\n',
            "mode": 420,
            "options": {"deep": {"a": [1, 2.5, None]}, "t": "x"},
            "tags": ["a", "b"],
            "force": True,
            "share": 0.5,
            "owner": None,
        },
    ),
    ("now", {}),
]


def parsed(
    form: type[ToolParser], pieces: Iterable[str], tools=TOOLS
) -> tuple[str, list[tuple[str, str]], bool]:
    """Content, name and arguments of each call, and whether the last one is unfinished."""
    numbers = count()
    parser = form(tools, lambda: f"id{next(numbers)}")
    return joined([*map(parser.push, pieces), parser.finish()]), parser.unfinished


def joined(deltas: Iterable[Delta]) -> tuple[str, list[tuple[str, str]]]:
    """As a client puts deltas together; id and name come once, first, and in order."""
    content, calls = "", []
    for delta in deltas:
        content += delta.content
        for call in delta.calls:
            if call.name is not None:
                assert (call.index, call.id) == (len(calls), f"id{call.index}")
                calls.append((call.name, call.arguments))
            else:
                assert call.id is None
                assert call.arguments
                assert call.index == len(calls) - 1
                calls[-1] = (calls[-1][0], calls[-1][1] + call.arguments)
    return content, calls


def cut(text: str, places: Iterable[int]) -> list[str]:
    borders = [0, *sorted(place % (len(text) + 1) for place in places), len(text)]
    return [text[a:b] for a, b in pairwise(borders)]
