"""Calls as a JSON object between tags, the form of Hermes and of Qwen's earlier templates."""

from __future__ import annotations

import re
from typing import Any

from hybridspec.checks import is_unicode
from hybridspec.text.tools.deltas import CALL, END, ToolParser
from hybridspec.text.tools.values import dumped, loaded

_NO_OBJECT = re.compile(CALL + r"\s*[^\s{]")


class HermesParser(ToolParser):
    """`<tool_call>{"name": ..., "arguments": {...}}</tool_call>`.

    A call is given when it is whole: by its end tag, or at the end of the answer without one. An
    end tag within a string of the JSON is part of the string. What is no such object is content.
    """

    _searched = 0  # characters of the call that hold no end tag

    def _inside(self) -> bool:
        if self._searched == 0 and _NO_OBJECT.match(self._text):
            return self._no_call()
        at = self._text.find(END, max(len(CALL), self._searched))
        if at < 0 and not self._ended:
            self._searched = max(0, len(self._text) - len(END))
            return False
        stop = len(self._text) if at < 0 else at
        try:
            call = loaded(self._text[len(CALL) : stop])
            name, arguments = _parts(call)
        except (ValueError, RecursionError) as error:
            if at >= 0 and str(error).startswith("Unterminated string"):
                self._searched = at + len(END)
                return True
            self._searched = 0
            return self._no_call()
        self._text, self._searched = self._text[stop + len(END) :], 0
        self._begin(name, arguments)
        return self._end()


def _parts(call: Any) -> tuple[str, str]:
    """A call's name and its arguments as JSON.

    Raises:
        ValueError: it is no call. RecursionError: nested too deeply.
    """
    name = call.get("name") if isinstance(call, dict) else None
    if not isinstance(name, str) or not name or not is_unicode(name):
        raise ValueError("no name")
    arguments = call.get("arguments", {})
    if not isinstance(arguments, dict):
        raise ValueError("no arguments")
    return name, dumped(arguments)
