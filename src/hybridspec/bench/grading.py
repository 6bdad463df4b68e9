"""Whether a reply gives the right answer. The same simple rules for both systems.

- number: the last number of the final statement, else of the reply; compared as a number.
- choice: the letter of the final statement, else the last one in parentheses, else the one that
  the reply begins with.
- word (true, false, yes, no, valid, invalid): the last of these words in the final statement, else
  in the reply.
- text: the reply holds the answer. One of words alone is looked for whatever their case and what
  stands between them; one with other characters (C++, 3:15) with these, whatever its case and
  spaces; one of other characters alone is the final statement, else the reply's last such run.
- code: see `program` here, and `execution.py`.

The final statement is what the last \\boxed{} holds, else what follows the last of "####", "answer
is" and "answer:" on its line; thoughts before "</think>" are no part of the reply.
"""

from __future__ import annotations

import re
import unicodedata
from decimal import Decimal

NUMBER = re.compile(
    r"(?:(?<![\w)])[-\u2212]\$?)?"
    r"(?:(?:\d{1,3}(?:,\d{3})+(?!\d)|\d+)(?:\.\d+)?|(?<![\w.)])\.\d+)"
)
# An answer that is nothing but a number, perhaps of dollars or percent.
ONLY_NUMBER = re.compile(rf"\$?{NUMBER.pattern}(?:\s?%)?")
WORDS = ("true", "false", "yes", "no", "valid", "invalid")
WORD = re.compile(rf"\b(?:{'|'.join(WORDS)})\b", re.IGNORECASE)
BOXED = re.compile(r"\\boxed\{([^{}]*)\}")
FINAL = re.compile(r"(?:####|\banswer\s*(?:is|:)[\s*:]*)(.*)", re.IGNORECASE)
IN_PARENTHESES = re.compile(r"\(([A-Z])\)")
AT_START = re.compile(r"[\s*(]*([A-Z])(?:[\s).:,*]|$)")
FENCE = re.compile(r"^```[^\n]*\n(.*?)(?:^```|\Z)", re.MULTILINE | re.DOTALL)
SYMBOLS = re.compile(r"(?:[^\w]|_)+")  # neither letters nor digits
EDGES = ".,:;*`\"'$"  # of a sentence or of Markdown, around symbols
# Models write what a keyboard has not; an answer file may have either.
PLAIN = str.maketrans("\u2018\u2019\u201c\u201d\u2010\u2011\u2013\u2014", "''\"\"----")
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
    if not _words(answer):
        return answer if _symbols(final, reply, answer) else None
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
    return Decimal(re.sub(r"[$,%\s]", "", text).replace("\u2212", "-"))


def _symbols(final: str, reply: str, answer: str) -> bool:
    """Whether the final statement, else the last run of symbols, is an answer of symbols alone."""
    wanted = "".join(answer.split())
    edges = "".join(set(EDGES) - set(wanted))
    runs = [final] if final.strip() else SYMBOLS.findall(reply)
    found = ["".join(run.split()).strip(edges) for run in runs]
    return _last([run for run in found if run]) == wanted


def _holds(reply: str, answer: str) -> bool:
    """Whole words in ASCII; elsewhere any place, for some scripts set no words apart."""
    words, text = _words(answer), _words(reply)
    if words.replace(" ", "") != _literal(answer).replace(" ", ""):
        return _holds_literally(_literal(reply), _literal(answer))
    if answer.isascii():
        return f" {words} " in f" {text} "
    return words in text


def _holds_literally(text: str, wanted: str) -> bool:
    """In ASCII not in the middle of a word, nor of a longer run of the same symbol."""
    if not wanted.isascii():
        return wanted in text
    before, after = (r"\w" if c.isalnum() else re.escape(c) for c in (wanted[0], wanted[-1]))
    return bool(re.search(rf"(?<!{before}){re.escape(wanted)}(?!{after})", text))


def _literal(text: str) -> str:
    """Every character, in small letters, with plain quotes and dashes and single spaces."""
    return " ".join(unicodedata.normalize("NFC", text).casefold().translate(PLAIN).split())


def _words(text: str) -> str:
    """Letters, marks and digits of every word, in small letters."""
    small = unicodedata.normalize("NFC", text).casefold()
    kept = (c if unicodedata.category(c)[0] in "LMN" else " " for c in small)
    return " ".join("".join(kept).split())
