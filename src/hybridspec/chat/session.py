"""The chat itself: takes messages and commands, shows answers, remembers the conversation."""

from __future__ import annotations

from dataclasses import dataclass

from hybridspec.chat import commands
from hybridspec.chat.conversation import Conversation, Messages, Turn
from hybridspec.chat.figures import Figures
from hybridspec.chat.lines import Lines, read_message
from hybridspec.chat.screen import Hearing
from hybridspec.cli.answer import follow
from hybridspec.cli.output import note
from hybridspec.core import Generation, SamplingParams
from hybridspec.engine import Engine
from hybridspec.errors import HybridSpecError, RequestError
from hybridspec.text.reasoning import thought_after

TAIL = 8  # tokens at a prompt's end that show whether a thought is open
AGAIN = "Ctrl-C again leaves the chat; so do Ctrl-D and /quit."


@dataclass(slots=True)
class Manner:
    """How answers are made: sampling and limits, decoding system, thinking first or not."""

    params: SamplingParams
    system: str | None = None
    thinking: bool = False


class Session:
    """One chat with an engine.

    Attributes:
        conversation, manner, figures: what was said, how answers are made, and their figures.
    """

    def __init__(
        self, engine: Engine, manner: Manner, system_prompt: str | None, interactive: bool
    ) -> None:
        """Begin a chat.

        Args:
            engine: with a tokenizer that has a chat template.
            manner: how answers are made; commands change it.
            system_prompt: the text of a system message.
            interactive: somebody types: an error is said and the chat goes on, and so is the first
                Ctrl-C. Else both end it.

        Raises:
            RequestError: no chat template.
        """
        if engine.tokenizer is None or not engine.tokenizer.has_chat_template:
            raise RequestError(
                "This checkpoint has no chat template, so there is no chat with it. Use "
                "`hybridspec generate --raw`, or a checkpoint that has one."
            )
        self._engine, self._tokenizer, self._interactive = engine, engine.tokenizer, interactive
        self.manner, self.figures = manner, Figures()
        self.conversation = Conversation(system_prompt)

    def run(self, lines: Lines) -> None:
        """Chats until the lines or the user end it.

        Raises:
            KeyboardInterrupt: Ctrl-C that was not for an answer; where somebody types, the second
                in a row. HybridSpecError: what cannot be used, where nobody types.
        """
        asked = False
        while True:
            try:
                message = read_message(lines)
                asked = False
                if message is None or not self._take(message):
                    return
            except KeyboardInterrupt:
                if asked or not self._interactive:
                    raise
                asked = True
                note(f"\n{AGAIN}")
            except HybridSpecError as error:
                if not self._interactive:
                    raise
                note(str(error))

    def _take(self, message: str) -> bool:
        """Answers a message or obeys a command. False: the chat is over."""
        if message.startswith("/") and not message.startswith("//"):
            return commands.obey(self, message)
        question = message.removeprefix("/") if message.startswith("//") else message
        if question.strip():
            self._ask(question)
        return True

    def _ask(self, question: str) -> None:
        ids, without = self.conversation.fit(question, self._encode, self._most())
        stream = self._engine.stream(ids, self.manner.params, system=self.manner.system)
        if without:
            lost = "oldest turn of the chat is" if without == 1 else f"{without} oldest turns are"
            context = self._engine.max_context
            note(f"(The context of {context} tokens is full: the {lost} forgotten.)")
        hearing = Hearing(thought_after(self._tokenizer.decode(ids[-TAIL:])))
        answer = follow(stream, hearing.take)
        hearing.end()
        self.figures.add(answer)
        said = hearing.split
        if said.content or answer.finish_reason != "abort":
            self.conversation.add(Turn(question, said.content, said.reasoning), without)
        self._remark(answer)

    def _encode(self, messages: Messages) -> list[int]:
        return self._engine.encode(messages, enable_thinking=self.manner.thinking)

    def _most(self) -> int:
        """Tokens of a prompt: what is left must hold an answer, or at least a quarter does."""
        context = self._engine.max_context
        return context - min(self.manner.params.max_tokens, context // 4)

    def _remark(self, answer: Generation) -> None:
        """Says why an answer ended where it did not end by itself."""
        if answer.finish_reason == "abort":
            if not self._interactive:
                raise KeyboardInterrupt
            note("(Stopped.)")
        elif answer.finish_reason == "length":
            limited = len(answer.token_ids) == self.manner.params.max_tokens
            why = "--max-tokens" if limited else "the context is full"
            note(f"(Cut after {_counted(len(answer.token_ids), 'token')}: {why}.)")


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
