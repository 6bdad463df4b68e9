"""How calls are written: how an answer that must be a call begins, and what binds one that may be.

Of a call its frame and its function are bound. What a model writes as arguments is as free as in an
answer without a grammar; of `hermes` they are a JSON object.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from hybridspec.errors import OptionError
from hybridspec.text.schema import MOST_BYTES, MOST_MEMBERS, MOST_SPACES
from hybridspec.text.tools.definitions import Tools
from hybridspec.text.tools.deltas import CALL, END
from hybridspec.text.tools.values import dumped

Format = dict[str, Any]  # of xgrammar's structural tags
BEGIN = {"qwen3_coder": f"{CALL}\n<function=", "hermes": f'{CALL}\n{{"name": '}
"""By the form of calls: what stands before the name of a function."""


def opening(form: str, name: str | None = None) -> str:
    """How an answer that must be a call begins.

    Args:
        form: a name in `PARSERS`.
        name: of the function that must be called; None leaves it to the model.
    """
    if name is not None:
        return BEGIN[form] + _named(form, name)
    return BEGIN[form] + ('"' if form == "hermes" else "")


def json_or_calls(schema: str, form: str, tools: Tools, *, after_thought: bool) -> str:
    """xgrammar's structural tag of an answer that is JSON, or calls and nothing else.

    Args:
        schema: of the JSON, as text.
        form: of the calls, a name in `PARSERS`.
        tools: whose functions may be called; checked.
        after_thought: whether line ends may stand before it, as models write them there.

    Raises:
        OptionError: more tools than a grammar should hold.
    """
    names = [tool["function"]["name"] for tool in tools]
    if len(names) > MOST_MEMBERS or sum(map(len, names)) > MOST_BYTES:
        most = f"{MOST_MEMBERS:,} with names of {MOST_BYTES:,} characters in all"
        raise OptionError("tools", f"are too many beside a schema; expected at most {most}.")
    either = {"type": "or", "elements": [_json(json.loads(schema)), _calls(form, names)]}
    lines = {"type": "regex", "pattern": r"\n{0,2}"}
    elements = [lines, either] if after_thought else [either]
    whole = {"type": "sequence", "elements": elements}
    return json.dumps({"type": "structural_tag", "format": whole})


def _calls(form: str, names: Sequence[str]) -> Format:
    """One call or more, a line end between them."""
    named = {"type": "or", "elements": [_text(_named(form, name)) for name in names]}
    arguments, end = _ARGUMENTS[form]
    content = {"type": "sequence", "elements": [named, arguments]}
    call = {"type": "tag", "begin": BEGIN[form], "content": content, "end": end}
    return {"type": "tags_with_separator", "tags": [call], "separator": "\n", "at_least_one": True}


def _named(form: str, name: str) -> str:
    """A name, and what stands between it and the arguments."""
    return f'{dumped(name)}, "arguments": ' if form == "hermes" else f"{name}>\n"


def _text(value: str) -> Format:
    return {"type": "const_string", "value": value}


def _json(schema: Any) -> Format:
    return {"type": "json_schema", "json_schema": schema, "max_whitespace_cnt": MOST_SPACES}


_PARAMETER = [{"type": "regex", "pattern": r"[^<>\n]+"}, _text(">\n"), {"type": "any_text"}]
_PARAMETERS = {
    "type": "star",
    "content": {
        "type": "tag",
        "begin": "<parameter=",
        "content": {"type": "sequence", "elements": _PARAMETER},
        "end": "\n</parameter>\n",
    },
}
_ARGUMENTS: dict[str, tuple[Format, str]] = {
    "qwen3_coder": (_PARAMETERS, f"</function>\n{END}"),
    "hermes": (_json({"type": "object"}), f"}}\n{END}"),
}
"""By the form of calls: their arguments, and what ends one."""
