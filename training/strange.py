# ruff: noqa: E501, SIM905 - the lines are sentences, the words a list
"""Requests unlike the rows, and orderly answers to them made of their own words, from a seed.

A small model that meets a strange request must have something to fall back on, or it speaks
nonsense, which no drafter can foresee. The requests mix instructions with text from anywhere; the
answers restate, quote and list what stands in them. All wording is our own.
"""

from __future__ import annotations

import re
from random import Random

from training.puzzles import Task

VERBS = (
    "Explain",
    "Describe",
    "Discuss",
    "Rewrite",
    "Translate",
    "Analyze",
    "Compare",
    "Improve",
    "Outline",
    "Critique",
    "Design",
    "Invent",
    "Classify",
    "Draft",
    "Edit",
    "Evaluate",
    "List",
    "Name",
    "Plan",
    "Predict",
    "Propose",
    "Review",
    "Suggest",
    "Teach",
)
FORMS = (
    "a limerick",
    "a riddle",
    "a blog post",
    "an outline",
    "a speech",
    "a press release",
    "a review",
    "a headline",
    "a tweet",
    "a song",
    "a recipe",
    "a quiz",
    "a resume",
    "a joke",
    "a proposal",
    "a product description",
    "a news article",
    "a script",
)
RULES = (
    "Do not use any commas.",
    "Use all lowercase letters.",
    "Your answer must have at least {n} sentences.",
    "Include the word {w} {n} times.",
    "Wrap the whole answer in double quotation marks.",
    "Finish with a postscript that starts with P.S.",
    "Use exactly {n} bullet points.",
    "The answer should be no less than {n}00 words.",
    "Put a title in double angular brackets.",
    "Answer in the style of a {w}.",
)
OPEN = (
    "You ask about {a}. Here is what I can say.",
    "This is about {a} and {b}.",
    "Let us look at {a} first.",
    "The request speaks of {a}, {b} and {c}.",
)
SHUT = (
    "That is all I can say about {a}.",
    "I hope this helps with {a}.",
    "If you tell me more about {a}, I can say more.",
)
COMMON = set(
    "about above after again also although among another around because been before being between both cannot could does done down during each either even every from further give given going have having here into itself just known less like made make many might more most much must need never next none often once only other others over part rather same shall should since some such take than that their them then there these they this those though through under until upon used using very want well were what when where whether which while whose will with within without would your".split()
)  # fmt: skip


def words(text: str) -> list[str]:
    """Telling words of a text, in order, each once."""
    found = dict.fromkeys(
        w for w in re.findall(r"[A-Za-z][a-z]{3,14}", text) if w.lower() not in COMMON
    )
    return list(found)


def first_sentence(text: str, most: int = 160) -> str:
    """The first sentence, cut at a word where it is long."""
    sentence = re.split(r"(?<=[.!?])\s+", " ".join(text.split()))[0]
    return sentence if len(sentence) <= most else sentence[:most].rsplit(" ", 1)[0] + " ..."


def _named(rng: Random, text: str) -> dict[str, str]:
    known = words(text) or ["this", "that", "it"]
    some = (known + known + known)[:3] if len(known) < 3 else rng.sample(known[:12], 3)
    return dict(zip("abc", some, strict=True))


def report(rng: Random, text: str) -> Task:
    """An instruction and a text; the answer restates, quotes and lists."""
    w = rng.choice(words(text) or ["words"])
    rule = rng.choice(RULES).format(n=rng.randint(2, 9), w=w)
    ask = f"{rng.choice(VERBS)} the following{rng.choice((' text', ' passage', ' idea', ''))}. {rule}\n\n{text}"
    if rng.random() < 0.4:
        ask = f"Write {rng.choice(FORMS)} about {w}. {text} {rule}"
    named = _named(rng, text)
    lines = [rng.choice(OPEN).format(**named), "", f'It says: "{first_sentence(text)}"']
    known = words(text)[: rng.randint(3, 6)]
    if rng.random() < 0.6 and len(known) >= 3:
        lines += [
            "",
            "The main points are:",
            "",
            *(f"{i}. {word}" for i, word in enumerate(known, 1)),
        ]
    lines += ["", rng.choice(SHUT).format(**named)]
    return ask, "\n".join(lines)


def options(rng: Random, texts: list[str]) -> Task:
    """A question with lettered options; the answer looks at each and takes one."""
    choices = [first_sentence(t, 70).rstrip(".!?") for t in texts[1:]]
    letters = "ABCDE"[: len(choices)]
    listed = "\n".join(f"({x}) {c}" for x, c in zip(letters, choices, strict=True))
    head = rng.choice(
        (
            "Read the sentence and choose.",
            "Which of these is right?",
            "Think step by step, then answer.",
            "Decide which option fits, or say that it is ambiguous.",
        )
    )
    ask = f"{head}\nSentence: {first_sentence(texts[0])}\nOptions:\n{listed}"
    best = rng.choice(letters)
    said = [f"({x}) says: {c}." for x, c in zip(letters, choices, strict=True)]
    answer = [
        "Let us look at the options.",
        *said,
        f"Of these ({best}) fits the sentence best.",
        f"So the answer is ({best}).",
    ]
    return ask, "\n".join(answer)


def role(rng: Random, who: str, text: str) -> Task:
    """A persona with a task made of text; the answer stays in the role and quotes the task."""
    named = _named(rng, text)
    ask = (
        f"I want you to act as a {who}. I will {rng.choice(('give you details about', 'tell you about', 'describe'))} {named['a']} "
        f"and you will {rng.choice(('help me with', 'give advice on', 'write about'))} {named['b']}. {first_sentence(text, 240)} "
        f'My first request is "I need help with {named["c"]}."'
    )
    steps = [
        f"First, write down what you know about {named['a']}.",
        f"Then look at {named['b']}, one thing at a time.",
        f"Last, ask what {named['c']} means for you.",
    ]
    rng.shuffle(steps)
    answer = [f"As your {who}, I am glad to help you with {named['c']}.", "", *(f"{i}. {s}" for i, s in enumerate(steps, 1)), "",
              f"Tell me more about {named['a']}, and we will go on from there."]  # fmt: skip
    return ask, "\n".join(answer)


def function(rng: Random, text: str) -> Task:
    """A signature and a docstring of foreign words; the answer is short code that parses."""
    known = [w.lower() for w in words(text)][:6] or ["value", "items"]
    name, argument = (
        "_".join(rng.sample(known, min(2, len(known)))),
        rng.choice(("items", "text", "n", "values", "numbers")),
    )
    doc = first_sentence(text, 90).replace('"', "'").replace("\\", "/")
    ask = f'Complete the following Python function. Reply with the full function in one code block.\n\n```python\ndef {name}({argument}):\n    """{doc}"""\n```'
    body = {
        "n": "result = 0\n    for i in range(n):\n        result += i\n    return result",
        "text": 'words = text.split()\n    return " ".join(words)',
    }.get(
        argument,
        f"result = []\n    for item in {argument}:\n        result.append(item)\n    return result",
    )
    return ask, f'```python\ndef {name}({argument}):\n    """{doc}"""\n    {body}\n```'


def strange(rng: Random, texts: list[str], roles: list[str]) -> Task:
    """One request of any kind, made of passages drawn from `texts` and a role of `roles`."""

    def text() -> str:
        start = rng.choice(texts)
        return start[: rng.randint(120, 700)].rsplit(" ", 1)[0]

    kind = rng.random()
    if kind < 0.4:
        return report(rng, text())
    if kind < 0.6:
        return options(rng, [text() for _ in range(rng.randint(3, 5))])
    if kind < 0.8:
        return role(rng, rng.choice(roles), text())
    return function(rng, text())
