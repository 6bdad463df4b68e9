"""Calls in the form that the templates of Qwen3.5/3.6 ask for, streamed as they come.

A value may hold any text, tags too: it ends only at a tag that is followed by what must follow it.
"""

from __future__ import annotations

import re

from hybridspec.text.tools.deltas import CALL, END, ToolParser
from hybridspec.text.tools.forms import NAME, NEWLINE, SPACE, Form
from hybridspec.text.tools.values import STRING, dumped, json_of, parameter_types

FUNCTION, FUNCTION_END = ("<function=", NAME, ">"), "</function>"
PARAMETER, PARAMETER_END = ("<parameter=", NAME, ">"), "</parameter>"

_NEXT = (PARAMETER, (FUNCTION_END,), (END,))  # what may stand after a head or a value
_HEAD = Form(CALL, SPACE, *FUNCTION, SPACE, followed_by=_NEXT)
_ANOTHER = Form(SPACE, *FUNCTION, SPACE, followed_by=_NEXT)
_PARAMETER = Form(*PARAMETER)
_TAIL = Form(SPACE, END)
_VALUE_ENDS = (
    Form(NEWLINE, PARAMETER_END, SPACE, followed_by=_NEXT),
    Form(NEWLINE, followed_by=((FUNCTION_END, SPACE, END),)),  # its own tag was forgotten
)


class CoderParser(ToolParser):
    """`<tool_call><function=NAME><parameter=P>value</parameter>...</function></tool_call>`.

    A line end after a parameter's opening and one before its closing belong to the tags. Tolerated:
    a missing `</function>` or `</tool_call>`, the last `</parameter>` missing, further functions in
    a call. A function or parameter that no tool defines is given too, with strings for values.
    """

    _first = True
    _types = STRING
    _name = ""
    _value: tuple[str, ...] = ()  # pieces of a value that is not streamed

    def _inside(self) -> bool:
        head = _HEAD.match(self._text)
        if head is not None:
            return self._call(head)
        return False if self._waits(_HEAD) else self._no_call()

    def _waits(self, *forms: Form) -> bool:
        return not self._ended and any(form.begun(self._text) for form in forms)

    def _call(self, head: re.Match[str]) -> bool:
        self._text = self._text[head.end() :]
        self._name, self._first = head[1].strip(), True
        self._begin(self._name, "{")
        return self._go(self._next)

    def _next(self) -> bool:
        """A parameter or the end of the call; the text begins with one of them."""
        head = _PARAMETER.match(self._text)
        if head is None:
            return self._close()
        self._text = self._text[head.end() :]
        name = head[1].strip()
        self._types = parameter_types(self._tools.get(self._name), name)
        quote = '"' if self._types == STRING else ""
        self._add(f"{'' if self._first else ', '}{dumped(name)}: {quote}")
        self._first, self._value = False, ()
        return self._go(self._line_end)

    def _line_end(self) -> bool:
        if not self._text and not self._ended:
            return False
        self._text = self._text.removeprefix("\n")
        return self._go(self._within)

    def _within(self) -> bool:
        """A parameter's value."""
        ends = [end for form in _VALUE_ENDS if (end := form.search(self._text))]
        if ends:
            end = min(ends, key=re.Match.start)
            self._give(self._text[: end.start()])
            self._add('"' if self._types == STRING else json_of("".join(self._value), self._types))
            self._text = self._text[end.end() :]
            return self._go(self._next)
        certain = len(self._text)
        if self._ended:
            self.unfinished = True
        else:
            certain = min(form.held(self._text) for form in _VALUE_ENDS)
        self._give(self._text[:certain])
        self._text = self._text[certain:]
        if self._ended:
            self._add("".join(self._value))
            self._value = ()
        return False

    def _give(self, value: str) -> None:
        """A piece of the value: strings go out at once, the others when they are whole."""
        if self._types == STRING:
            self._add(dumped(value)[1:-1])
        elif value:
            self._value += (value,)

    def _close(self) -> bool:
        self._add("}")
        if self._text.startswith(END):
            self._text = self._text.removeprefix(END)
            return self._end()
        self._text = self._text.removeprefix(FUNCTION_END)
        return self._go(self._after)

    def _after(self) -> bool:
        """What follows `</function>`."""
        if another := _ANOTHER.match(self._text):
            return self._call(another)
        if tail := _TAIL.match(self._text):
            self._text = self._text[tail.end() :]
            return self._end()
        return False if self._waits(_ANOTHER, _TAIL) else self._end()
