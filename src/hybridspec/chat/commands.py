"""What begins with a slash."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hybridspec.cli.output import note
from hybridspec.errors import RequestError

if TYPE_CHECKING:
    from hybridspec.chat.session import Session

NOTES = """\
A line that ends in \\ goes on in the next one. // begins a message that begins with /.
Ctrl-C stops an answer; at the prompt, twice, it leaves the chat, and so does Ctrl-D."""


@dataclass(frozen=True, slots=True)
class Command:
    """What it does, given the session and the rest of the line, and what `/help` says of it."""

    usage: str
    help: str
    run: Callable[[Session, str], None]


def obey(session: Session, line: str) -> bool:
    """Does what a line such as `/think on` says. False: the chat is over.

    Raises:
        RequestError: there is no such command, or it cannot be followed.
    """
    name, _, rest = line.strip().removeprefix("/").partition(" ")
    command = COMMANDS.get(name)
    if command is None or (rest.strip() and " " not in command.usage):
        raise RequestError(f"There is no command {line!r}; /help lists what there is.")
    command.run(session, rest.strip())
    return name != "quit"


def _help(session: Session, rest: str) -> None:
    for command in COMMANDS.values():
        note(f"{command.usage:14} {command.help}")
    note(NOTES)


def _system(session: Session, text: str) -> None:
    if text:
        session.conversation.system = None if text == "-" else text
    said = session.conversation.system
    note("(There is no system message.)" if said is None else f"(System message: {said})")


def _think(session: Session, word: str) -> None:
    if word not in ("on", "off", ""):
        raise RequestError(f"/think is followed by {word!r}; expected on or off.")
    session.manner.thinking = word == "on" if word else session.manner.thinking
    note(f"(Thinking first is {'on' if session.manner.thinking else 'off'}.)")


def _stats(session: Session, rest: str) -> None:
    for line in session.figures.lines():
        note(line)


def _reset(session: Session, rest: str) -> None:
    session.conversation.turns.clear()
    note("(The conversation is forgotten; the system message stays.)")


COMMANDS = {
    "help": Command("/help", "this list", _help),
    "system": Command("/system TEXT", "set the system message; - takes it away", _system),
    "think": Command("/think on|off", "let the model think first, or not", _think),
    "stats": Command("/stats", "figures of the last answer and of the chat", _stats),
    "reset": Command("/reset", "forget the conversation", _reset),
    "quit": Command("/quit", "leave the chat", lambda session, rest: None),
}
