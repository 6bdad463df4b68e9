"""Generated stories are whole, follow first sentence and topic, and depend on the seed only."""

from __future__ import annotations

import re
from random import Random

from training import tales

TOPICS = ("the lantern and the river", "a detective", "time travel", "an old friend", "oak")


def test_a_story_is_sound_and_speaks_of_its_topic_twice() -> None:
    rng = Random(5)
    for _ in range(300):
        about = rng.choice(TOPICS)
        text = tales.tale(rng, about)
        assert tales.sound(text)
        assert text.lower().count(about) >= 2


def test_no_slot_is_left_and_articles_and_pronouns_agree() -> None:
    rng = Random(6)
    for _ in range(600):
        text = "\n".join(tales.request(rng, lambda: rng.choice(TOPICS)))
        assert not re.search(r"[{}|]|  |\b(\w+) \1\b", text), text
        assert not re.search(r"\b[Aa] [aeio]|\b[Aa]n [b-df-gj-np-tv-z]", text), text
        assert not re.search(r"\b(to|followed|with) I\b", text), text


def test_a_story_begins_with_the_given_sentence() -> None:
    first = "She had kept the secret for thirty years."
    text = tales.tale(Random(1), "a cat", first)
    assert text.startswith(first + " ")
    assert tales.sound(text)


def test_the_seed_decides() -> None:
    assert tales.raw(Random(3), lambda: "oak") == tales.raw(Random(3), lambda: "oak")
    assert tales.raw(Random(3), lambda: "oak") != tales.raw(Random(4), lambda: "oak")
