"""Whether a reply gives the right answer. The same simple rules for both systems.

- number: the last number of the final statement, else of the reply; compared as a number.
- choice: the letter of the final statement, else the last one in parentheses, else the one that
  the reply begins with.
- word (true, false, yes, no, valid, invalid): the last of these words in the final statement, else
  in the reply.
- text: the reply holds the answer, in its words, whatever their case and punctuation.
- code: see `program` here, and `execution.py`.

The final statement is what the last \\boxed{} holds, else what follows the last of "####", "answer
is" and "answer:" on its line; thoughts before "</think>" are no part of the reply.
"""

from __future__ import annotations

import re
import unicodedata
from decimal import Decimal

NUMBER = re.compile(r"(?:(?<![\w)])[-\u2212])?(?:\d{1,3}(?:,\d{3})+(?!\d)|\d+)(?:\.\d+)?")
WORDS = ("true", "false", "yes", "no", "valid", "invalid")
WORD = re.compile(rf"\b(?:{'|'.join(WORDS)})\b", re.IGNORECASE)
BOXED = re.compile(r"\\boxed\{([^{}]*)\}")
FINAL = re.compile(r"(?:####|\banswer\s*(?:is|:)[\s*:]*)(.*)", re.IGNORECASE)
IN_PARENTHESES = re.compile(r"\(([A-Z])\)")
AT_START = re.compile(r"[\s*(]*([A-Z])(?:[\s).:,*]|$)")
FENCE = re.compile(r"^```[^\n]*\n(.*?)(?:^```|\Z)", re.MULTILINE | re.DOTALL)
# Where a continuation of a function has left it, as HumanEval's own harness cuts.
LEFT = re.compile(r"\n(?:class|def|#|if|print|@|```)", re.MULTILINE)


def said(kind: str, reply: str, answer: str = "") -> str | None:
    """What a reply gives as its answer; None where it gives none.

    Args:
        kind: number, choice, word or text.
        reply: the whole text.
        answer: the right one, which a text is searched for.
    """
    reply = reply.rpartition("</think>")[2]
    finals = BOXED.findall(reply) or FINAL.findall(reply)
    final = finals[-1] if finals else ""
    if kind == "number":
        return _last(NUMBER.findall(final) or NUMBER.findall(reply))
    if kind == "word":
        return _last(WORD.findall(final) or WORD.findall(reply))
    if kind == "choice":
        return _letter(final, reply)
    return answer if _holds(reply, answer) else None


def is_right(kind: str, found: str | None, answer: str) -> bool:
    """Whether what a reply said is the right answer."""
    if found is None:
        return False
    if kind == "number":
        return _value(found) == _value(answer)
    if kind == "choice":
        return found == answer.strip("()")
    return found.casefold() == answer.casefold()


def program(prompt: str, reply: str, entry_point: str) -> str:
    """The program that a reply makes of a prompt which holds a function's head.

    A fenced block that defines the function comes after the prompt's own code, whose imports and
    helpers it may need. A reply without one either defines the function or goes on from the prompt.
    """
    reply = reply.rpartition("</think>")[2]
    asked = "\n".join(FENCE.findall(prompt)) or prompt
    defines = re.compile(rf"^\s*(?:async\s+)?def\s+{re.escape(entry_point)}\b", re.MULTILINE)
    blocks = [block for block in FENCE.findall(reply) if defines.search(block)]
    if blocks:
        return f"{asked}\n\n{blocks[-1]}\n"
    if defines.search(reply):
        return f"{asked}\n\n{reply}\n"
    left = LEFT.search(reply)
    return asked + (reply[: left.start()] if left else reply) + "\n"


def _last(found: list[str]) -> str | None:
    return found[-1] if found else None


def _letter(final: str, reply: str) -> str | None:
    start = AT_START.match(final) if final else None
    if start:
        return start[1]
    for text in (final, reply):
        inside = IN_PARENTHESES.findall(text)
        if inside:
            return str(inside[-1])
    start = AT_START.match(reply)
    return start[1] if start else None


def _value(text: str) -> Decimal:
    return Decimal(text.lstrip("$").replace(",", "").replace("\u2212", "-"))


def _holds(reply: str, answer: str) -> bool:
    """Whole words in ASCII; elsewhere any place, for some scripts set no words apart."""
    words, text = _words(answer), _words(reply)
    if answer.isascii():
        return f" {words} " in f" {text} "
    return bool(words) and words in text


def _words(text: str) -> str:
    """Letters, marks and digits of every word, in small letters."""
    kept = (c if unicodedata.category(c)[0] in "LMN" else " " for c in text.casefold())
    return " ".join("".join(kept).split())
