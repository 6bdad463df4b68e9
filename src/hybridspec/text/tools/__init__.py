"""Tools: their definitions, and the calls that a model writes into its answer.

Two forms are read, each by a parser that takes text in pieces of any size:

- `qwen3_coder`, which the templates of Qwen3.5/3.6 ask for:
  `<tool_call><function=NAME><parameter=P>value</parameter>...</function></tool_call>`, with line
  ends between the tags. A string is streamed; a value of another type comes whole, read by its
  schema.
- `hermes`: `<tool_call>{"name": ..., "arguments": {...}}</tool_call>`. A call comes whole.

What is not of the form stays text. A `qwen3_coder` call that the answer leaves unfinished leaves
its arguments unfinished too: they are no valid JSON, so that nobody runs half a call; `unfinished`
tells. An unfinished `hermes` call is text.
"""

from __future__ import annotations

from hybridspec.text.tools.coder import CoderParser
from hybridspec.text.tools.definitions import check_tools
from hybridspec.text.tools.deltas import CALL, CallDelta, Delta, ToolParser
from hybridspec.text.tools.hermes import HermesParser

__all__ = ["CALL", "PARSERS", "CallDelta", "Delta", "ToolParser", "check_tools"]

PARSERS: dict[str, type[ToolParser]] = {"qwen3_coder": CoderParser, "hermes": HermesParser}
