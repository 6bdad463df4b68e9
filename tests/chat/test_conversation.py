from __future__ import annotations

import pytest

from hybridspec.chat.conversation import Conversation, Turn

USER = {"role": "user", "content": "c"}


@pytest.fixture
def conversation():
    made = Conversation("Be brief.")
    made.add(Turn("a", "A", "hm"))
    made.add(Turn("b", "B"))
    return made


def test_the_messages_are_all_that_was_said_and_the_question(conversation):
    assert conversation.messages("c") == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "a"},
        {"role": "assistant", "content": "A", "reasoning_content": "hm"},
        {"role": "user", "content": "b"},
        {"role": "assistant", "content": "B"},
        USER,
    ]
    assert Conversation().messages("c") == [USER]


@pytest.mark.parametrize(("most", "without"), [(6, 0), (5, 1), (4, 1), (3, 2), (2, 2), (0, 2)])
def test_the_oldest_turns_are_left_out_as_few_as_will_do(conversation, most, without):
    """One token a message here. The system message and the question stay, whatever fits."""
    ids, left_out = conversation.fit("c", lambda messages: [0] * len(messages), most)
    assert (len(ids), left_out) == (6 - 2 * without, without)
    assert len(conversation.turns) == 2


def test_what_was_left_out_is_forgotten_with_the_next_turn(conversation):
    conversation.add(Turn("c", "C"), without=1)
    assert [turn.question for turn in conversation.turns] == ["b", "c"]
