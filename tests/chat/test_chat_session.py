"""A chat with an engine under a script; what the model is given is what the engine is asked."""

from __future__ import annotations

import signal
from collections.abc import Callable

import pytest

from hybridspec.chat.lines import read_message
from hybridspec.chat.session import AGAIN, Manner, Session
from hybridspec.core import SamplingParams
from hybridspec.errors import RequestError
from hybridspec.runtime.round import Rounds
from scripted_text import say, text_engine

CTRL_C = object()


class Script:
    """Lines that stand ready; a call among them is made before the next one is read."""

    def __init__(self, *lines: object) -> None:
        self._lines = list(lines)

    def read(self, prompt: str) -> str | None:
        while self._lines:
            line = self._lines.pop(0)
            if line is CTRL_C:
                raise KeyboardInterrupt
            if isinstance(line, str):
                return line
            assert callable(line)
            line()
        return None


@pytest.fixture(scope="module")
def engine():
    return text_engine(max_context=160)


@pytest.fixture
def asked(engine, monkeypatch) -> list[str]:
    """The prompts that the engine is given, as text."""
    prompts: list[str] = []
    stream = engine.stream

    def spy(ids, *arguments, **options):
        prompts.append(engine.tokenizer.decode(ids, False))
        return stream(ids, *arguments, **options)

    monkeypatch.setattr(engine, "stream", spy)
    return prompts


@pytest.fixture
def chat(engine, capsys) -> Callable[..., tuple[str, str]]:
    def run(*lines, interactive=True, prompt=None, thinking=False, **params) -> tuple[str, str]:
        manner = Manner(SamplingParams(**params), "static:4", thinking)
        session = Session(engine, manner, prompt, interactive)
        try:
            session.run(Script(*lines))
        finally:
            said = capsys.readouterr()
        return said.out, said.err

    return run


def test_the_model_is_given_all_that_was_said(engine, chat, asked):
    say(engine, "First.")
    out, err = chat("One?", lambda: say(engine, "Second."), "Two?", prompt="Be brief.")
    assert (out, err) == ("First.\nSecond.\n", "")
    turn = "<|im_start|>{}\n{}<|im_end|>\n".format
    said = turn("system", "Be brief.") + turn("user", "One?")
    opening = "<|im_start|>assistant\n<think>\n\n</think>\n\n"
    assert asked[0] == said + opening
    assert asked[1] == said + turn("assistant", "First.") + turn("user", "Two?") + opening


def test_thoughts_go_to_standard_error(engine, chat, asked, monkeypatch):
    say(engine, "I think.\n</think>\n\nI say.")
    assert chat("One?", thinking=True) == ("I say.\n", "I think.\n\n")
    say(engine, "Only thought</thi")
    out, err = chat("One?", "Two?", thinking=True)
    assert (out, err) == ("", "Only thought</thi\n" * 2)
    assert asked[-1].count("One?") == 1  # a question without an answer is not lost
    monkeypatch.setattr("hybridspec.chat.screen.colours", lambda: True)
    say(engine, "Hm.</think>So.")
    out, err = chat("One?", thinking=True)
    assert out == "So.\n"
    assert err.replace("\x1b[0m\x1b[2m", "") == "\x1b[2mHm.\x1b[0m\n\n"


def test_commands(engine, chat, asked):
    say(engine, "Yes.")
    out, err = chat(
        "One?",
        "/reset",
        "/system  Be kind. ",
        "Two?",
        "/system",
        "/think on",
        "/system -",
        "Three?",
    )
    assert out == "Yes.\n" * 2  # the third is a thought
    assert "One?" not in asked[1]
    assert "system\nBe kind.<" in asked[1]
    assert "Two?" in asked[2]
    assert "Be kind" not in asked[2]
    assert asked[2].endswith("assistant\n<think>\n")
    assert err.splitlines() == [
        "(The conversation is forgotten; the system message stays.)",
        "(System message: Be kind.)",
        "(System message: Be kind.)",
        "(Thinking first is on.)",
        "(There is no system message.)",
        "Yes.",
    ]


def test_help_lists_every_command(chat):
    out, err = chat("/help")
    assert out == ""
    for name in ("/help", "/system TEXT", "/think on|off", "/stats", "/reset", "/quit", "Ctrl-C"):
        assert name in err


def test_figures(engine, chat):
    ids = say(engine, "A somewhat longer answer, so that there are rounds.", plan=(3,))
    _, err = chat("/stats", "One?", "/stats", "Two?", "/stats")
    none, *lines = err.splitlines()
    assert none == "No answer yet."
    assert len(lines) == 8
    rounds = len(ids) // 4 + (len(ids) % 4 > 0)
    assert lines[0].startswith(f"Last answer: {len(ids) + 1} tokens, ")
    assert f"{rounds} rounds, mean acceptance length " in lines[0]
    assert "finish reason stop" in lines[0]
    assert lines[1].startswith("  w, the target inputs of a round: ")
    assert sum(int(n.split(" times")[0]) for n in lines[1].split("(")[1:]) == rounds
    assert lines[2].startswith("  prompt: ")
    assert lines[3].startswith(f"This chat: 1 answer, {len(ids) + 1} tokens, ")
    assert lines[7].startswith(f"This chat: 2 answers, {2 * len(ids) + 2} tokens, ")


def test_quit_and_the_end_of_the_lines_leave(engine, chat, asked):
    say(engine, "Yes.")
    assert chat("One?", "/quit", "Two?") == ("Yes.\n", "")
    assert len(asked) == 1


def test_slashes_blank_lines_and_lines_that_go_on(engine, chat, asked):
    say(engine, "Yes.")
    chat("//etc", "  ", "", "One\\", "Two\\", "")
    assert len(asked) == 2
    assert "user\n/etc<|im_end|>" in asked[0]
    assert "user\nOne\nTwo\n<|im_end|>" in asked[1]
    assert read_message(Script("One\\")) == "One\n"
    assert read_message(Script()) is None


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("/exit", "There is no command '/exit'; /help lists what there is."),
        ("/stats now", "There is no command '/stats now'"),
        ("/", "There is no command '/'"),
        ("/think maybe", "/think is followed by 'maybe'; expected on or off."),
        ("word " * 600, "tokens and the context 160"),
    ],
)
def test_what_cannot_be_used_is_said_and_the_chat_goes_on_where_somebody_types(
    engine, chat, asked, line, told
):
    say(engine, "Yes.")
    out, err = chat("One?", line, "Two?")
    assert out == "Yes.\nYes.\n"
    assert told in err
    assert err.count("\n") == 1
    assert "One?" in asked[-1]
    with pytest.raises(RequestError, match=r"/think|no command|tokens and the context"):
        chat(line, interactive=False)


def test_a_full_context_forgets_the_oldest_turns(engine, chat, asked):
    say(engine, "An answer of some length about nothing at all. " * 2)
    questions = [f"Question {n}?" for n in range(8)]
    out, err = chat(*questions, max_tokens=60)
    assert all(len(engine.tokenizer.encode(prompt)) <= 120 for prompt in asked)  # a quarter stays
    assert set(err.splitlines()) == {
        "(The context of 160 tokens is full: the oldest turn of the chat is forgotten.)"
    }
    assert questions[0] in asked[1]
    assert questions[0] not in asked[-1]
    assert questions[6] in asked[-1]
    assert out.count("\n") == 8


def test_why_an_answer_is_cut(engine, chat):
    say(engine, "An answer of some length about nothing at all. " * 20)
    assert chat("One?", max_tokens=5)[1] == "(Cut after 5 tokens: --max-tokens.)\n"
    assert chat("One?", max_tokens=1)[1] == "(Cut after 1 token: --max-tokens.)\n"
    assert chat("One?", max_tokens=200)[1].endswith(" tokens: the context is full.)\n")


# ---- Ctrl-C


def interrupt_rounds(monkeypatch, number: int) -> None:
    """Ctrl-C comes in one round, counted from 1."""
    run, rounds = Rounds.run, []

    def spy(*arguments):
        rounds.append(0)
        if len(rounds) == number:
            signal.raise_signal(signal.SIGINT)
        return run(*arguments)

    monkeypatch.setattr(Rounds, "run", spy)


@pytest.fixture
def _ctrl_c():
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("_ctrl_c")
def test_ctrl_c_stops_an_answer_and_the_chat_remembers_what_was_said(
    engine, chat, asked, monkeypatch
):
    text = "One two three four five six seven eight nine ten eleven twelve"
    say(engine, text)
    interrupt_rounds(monkeypatch, 2)
    out, err = chat("Count.", "Go on.")
    stopped, whole = out.splitlines()
    assert text.startswith(stopped)
    assert 0 < len(stopped) < len(text)
    assert (whole, err) == (text, "(Stopped.)\n")
    assert f"assistant\n{stopped}<|im_end|>" in asked[1]


@pytest.mark.usefixtures("_ctrl_c")
def test_ctrl_c_before_anything_was_said_forgets_the_question(engine, chat, asked, monkeypatch):
    say(engine, "Yes.")
    first = Rounds.first_token

    def spy(*arguments):
        monkeypatch.setattr(Rounds, "first_token", first)
        raise KeyboardInterrupt

    monkeypatch.setattr(Rounds, "first_token", spy)
    assert chat("One?", "Two?") == ("Yes.\n", "(Stopped.)\n")
    assert "One?" not in asked[1]


@pytest.mark.usefixtures("_ctrl_c")
def test_where_nobody_types_it_ends_the_chat(engine, chat, monkeypatch):
    say(engine, "One two three four five six seven eight nine ten eleven twelve")
    interrupt_rounds(monkeypatch, 2)
    with pytest.raises(KeyboardInterrupt):
        chat("Count.", "Go on.", interactive=False)
    with pytest.raises(KeyboardInterrupt):
        chat(CTRL_C, interactive=False)


def test_at_the_prompt_only_the_second_in_a_row_leaves(engine, chat, asked):
    say(engine, "Yes.")
    assert chat("One?", CTRL_C, "Two?", CTRL_C) == ("Yes.\nYes.\n", f"\n{AGAIN}\n" * 2)
    with pytest.raises(KeyboardInterrupt):
        chat("One?", CTRL_C, CTRL_C, "Two?")
    assert len(asked) == 3
