# ruff: noqa: E501 - the lines are sentences
"""Answers of a few plain forms (advice in a role, letters, short articles) and small functions, from a seed.

They give a small model something orderly to say where the data has no rows of the kind. The topics and
roles come from the caller; all wording is our own.
"""

from __future__ import annotations

from random import Random

from training.puzzles import NAMES, Task

OPENINGS = (
    "As your {role}, I am glad to help you with {topic}.",
    "I am happy to help with {topic}. As a {role}, I have seen many cases like yours.",
    "Thank you for coming to me. As a {role}, I know how important {topic} can be.",
    "Of course. Let us talk about {topic} and what a {role} would advise.",
)
STEPS = (
    "Start with a clear goal. Write down what you want from {topic} and why it matters to you.",
    "Make a simple plan. Divide {topic} into small steps and do one step each day.",
    "Ask questions early. A short talk with someone who knows {topic} can save you a lot of time.",
    "Keep a record. Note what works and what does not, and look at your notes every week.",
    "Take your time. There is no need to hurry, and small steps add up.",
    "Look for good examples. Find people who do well with {topic} and see what they have in common.",
    "Practice often. A few minutes every day are better than a long session once a week.",
    "Be honest with yourself. If something about {topic} does not work, change it.",
    "Set aside enough money and time. It is easy to forget the small costs.",
    "Share what you learn. When you explain {topic} to others, you understand it better yourself.",
    "Rest when you need to. You will think more clearly about {topic} after a break.",
    "Check your progress. At the end of each month, compare where you are with where you started.",
)
CLOSINGS = (
    "If you tell me more about {topic}, I can give you more specific advice.",
    "Please let me know if you have any other questions.",
    "I hope this helps. What would you like to talk about next?",
    "Remember that everyone starts somewhere. You can do this.",
)
POINTS = (
    "It saves time: with {topic}, many things can be done faster than before.",
    "It helps people learn: {topic} gives us new ways to see the world.",
    "It brings people together: many people enjoy {topic} with their friends and family.",
    "It can cost a lot: before you start with {topic}, think about the price.",
    "It is good for your health: {topic} can help you to feel better and to rest.",
    "It takes practice: nobody understands {topic} in one day.",
    "It changes with time: what we know about {topic} today is not what people knew a hundred years ago.",
    "It has risks: there are things about {topic} that can go wrong, so be careful.",
    "It is useful at work: people who know about {topic} often find better jobs.",
    "It is part of our culture: {topic} appears in books, in films and in music.",
)
PARAGRAPHS = (
    "{Topic} is something that many people have heard of, but few people know well. In this text we "
    "look at what it is, why it matters and what we can learn from it.",
    "There are many reasons to be interested in {topic}. First, it is part of our daily life. Second, it "
    "has a long history. Third, it shows us how people think and work together.",
    "When we look at the history of {topic}, we see that it has changed a great deal. In the past it was "
    "known to a few people only. Today it can be found in many places around the world.",
    "Of course there are also problems with {topic}. Some people say that it costs too much, and others "
    "say that it takes too much time. These are fair points, and we should think about them.",
    "The most important thing about {topic} is that it brings people together. When people share what "
    "they know, everyone can learn something new.",
    "In the end, {topic} is what we make of it. If we take the time to understand it, it can make our "
    "lives better and richer.",
)
LETTERS = {
    "thank": (
        "I am writing to thank you for your help with {topic}. It meant a great deal to me.",
        "Without your support, I would not have been able to finish the work in time.",
        "I hope that I will be able to help you in the same way one day.",
    ),
    "apply": (
        "I am writing to apply for the position of {role}. I have followed your work with great interest.",
        "In my last position I learned a lot about {topic}, and I would like to use this knowledge with you.",
        "I would be happy to tell you more about my experience in a personal meeting.",
    ),
    "resign": (
        "I am writing to let you know that I am leaving my position as {role}. My last day will be in two "
        "weeks.",
        "I am grateful for the opportunities you have given me, and I have learned a great deal about "
        "{topic}.",
        "I will do everything I can to make the change as easy as possible.",
    ),
    "invite": (
        "I would like to invite you to an event about {topic}. It will take place next month in our town.",
        "I know that you do not like to speak in front of many people, but I think that you have a lot "
        "to say about {topic}.",
        "Please let me know if you can come. I would be very glad to see you.",
    ),
    "propose": (
        "I am writing to propose that we work together on {topic}. I believe that both of us would gain.",
        "Our company has many years of experience, and your company knows the market well.",
        "If you are interested, we could meet next week to talk about the details.",
    ),
    "friend": (
        "How are you? It has been a long time since we talked, and I often think of you.",
        "Since you moved away, I have been busy with {topic}. It is a lot of work, but I enjoy it.",
        "I hope that you are well and that we can see each other soon.",
    ),
}
LETTER_ASKS = {
    "thank": "Write a thank-you letter about {topic}.",
    "apply": "Write a cover letter for a job application as a {role}.",
    "resign": "Can you help me write a resignation letter? I work as a {role}.",
    "invite": "Write an email to invite a friend to an event about {topic}.",
    "propose": "Can you help me write a formal email to a business partner about {topic}?",
    "friend": "Write a letter to your friend who moved away.",
}
ARTICLE_ASKS = (
    "Write a short article about {topic}.",
    "Write an essay on {topic}.",
    "Write a blog post about {topic}.",
    "Compose an engaging blog post about {topic}.",
    "Write a script for a video about {topic}.",
    "Write a description of {topic}, in approximately 150 words.",
    "Write an introduction to {topic} for new readers.",
    "Please write a text of 300 words about {topic}.",
    "Could you write about {topic}?",
)
POINT_ASKS = (
    "What are the benefits of {topic}?",
    "How can {topic} improve my life?",
    "What should I know about {topic}?",
    "What are some interesting things about {topic}?",
    "How does {topic} affect people?",
    "Why is {topic} important?",
)
AGAIN = (
    "Can you present the same information in a bullet-point format?",
    "Could you write that as a list?",
    "Please turn your answer into a short list.",
)
ROLE_ASKS = (
    'I want you to act as a {role}. {what} My first request is "I need help with {topic}."',
    "I want you to act as a {role}. I will tell you about my situation and you will give me advice. "
    '{what} My first suggestion request is "I need advice on {topic}."',
    'Act as a {role}. {what} My first question is "What should I know about {topic}?"',
    "Imagine that you are a {role}. {what} What can you tell me about {topic}?",
    "Pretend to be a {role}. How would you talk about {topic}?",
)


def fill(text: str, topic: str, role: str = "") -> str:
    """Put topic and role into a form."""
    text = text.replace("a {role}", ("an" if role[:1] in "aeiou" else "a") + " {role}")
    return text.format(topic=topic, role=role, Topic=topic[:1].upper() + topic[1:])


def roleplay(rng: Random, topic: str, role: str, gloss: str) -> Task:
    """Advice in a role."""
    what = rng.choice((f"You are {gloss}.", "You will answer my questions and help me.", ""))
    ask = rng.choice(ROLE_ASKS).replace("{what} ", f"{what} " if what else "")
    parts = [fill(rng.choice(OPENINGS), topic, role)]
    if rng.random() < 0.4:
        parts[0] += f" After all, a {role} is {gloss}."
    steps = rng.sample(STEPS, rng.randint(3, 5))
    parts.append("Here is what I would suggest:")
    parts.append("\n".join(f"{i + 1}. {fill(s, topic)}" for i, s in enumerate(steps)))
    parts.append(fill(rng.choice(CLOSINGS), topic))
    return fill(ask, topic, role), "\n\n".join(parts)


def letter(rng: Random, topic: str, role: str) -> Task:
    """A letter of one of six kinds."""
    kind = rng.choice(list(LETTERS))
    to, sender = rng.sample(NAMES[:26], 2)
    head = f"Subject: {kind.capitalize()}\n\n" if rng.random() < 0.2 else ""
    body = "\n\n".join(fill(p, topic, role) for p in LETTERS[kind])
    bye = rng.choice(("Best regards,", "Yours sincerely,", "Kind regards,"))
    return fill(LETTER_ASKS[kind], topic, role), f"{head}Dear {to},\n\n{body}\n\n{bye}\n{sender}"


def article(rng: Random, topic: str) -> Task:
    """A short text in paragraphs, in their order."""
    keep = sorted(rng.sample(range(1, 5), rng.randint(2, 4)))
    parts = [PARAGRAPHS[i] for i in (0, *keep, 5)]
    title = f"# {topic[:1].upper() + topic[1:]}\n\n" if rng.random() < 0.3 else ""
    return fill(rng.choice(ARTICLE_ASKS), topic), title + "\n\n".join(fill(p, topic) for p in parts)


def points(rng: Random, topic: str) -> list[Task]:
    """A numbered answer, at times followed by a request for the same as a list."""
    chosen = rng.sample(POINTS, rng.randint(3, 5))
    head = fill("There are several things to say about {topic}:", topic)
    body = "\n".join(f"{i + 1}. {fill(p, topic)}" for i, p in enumerate(chosen))
    tail = fill("In short, {topic} is worth a closer look.", topic)
    turns = [(fill(rng.choice(POINT_ASKS), topic), f"{head}\n\n{body}\n\n{tail}")]
    if rng.random() < 0.3:
        turns.append((rng.choice(AGAIN), "\n".join(f"- {fill(p, topic)}" for p in chosen)))
    return turns


# name, task, arguments, body, call and result: functions in the manner of first exercises.
FUNCTIONS = (
    ("sum_list", "find the sum of a list", "nums", "return sum(nums)", "([1, 2, 3])", "6"),
    (
        "max_list",
        "find the largest element of a list",
        "nums",
        "return max(nums)",
        "([4, 9, 2])",
        "9",
    ),
    (
        "min_list",
        "find the smallest element of a list",
        "nums",
        "return min(nums)",
        "([4, 9, 2])",
        "2",
    ),
    (
        "count_even",
        "count the even numbers in a list",
        "nums",
        "count = 0\nfor num in nums:\n    if num % 2 == 0:\n        count += 1\nreturn count",
        "([1, 2, 4])",
        "2",
    ),
    (
        "count_vowels",
        "count the vowels in a string",
        "text",
        'count = 0\nfor char in text:\n    if char in "aeiou":\n        count += 1\nreturn count',
        "('banana')",
        "3",
    ),
    (
        "is_prime",
        "check whether a number is prime",
        "n",
        "if n < 2:\n    return False\nfor i in range(2, n):\n    if n % i == 0:\n        return False\n"
        "return True",
        "(7)",
        "True",
    ),
    (
        "factorial",
        "compute the factorial of a number",
        "n",
        "result = 1\nfor i in range(1, n + 1):\n    result *= i\nreturn result",
        "(4)",
        "24",
    ),
    ("reverse_string", "reverse a string", "text", "return text[::-1]", "('abc')", "'cba'"),
    (
        "is_palindrome",
        "check whether a string is a palindrome",
        "text",
        "return text == text[::-1]",
        "('level')",
        "True",
    ),
    (
        "remove_duplicates",
        "remove duplicates from a list",
        "items",
        "result = []\nfor item in items:\n    if item not in result:\n        result.append(item)\n"
        "return result",
        "([1, 1, 2])",
        "[1, 2]",
    ),
    (
        "second_largest",
        "find the second largest number in a list",
        "nums",
        "nums = sorted(set(nums))\nreturn nums[-2]",
        "([3, 1, 2])",
        "2",
    ),
    (
        "fibonacci",
        "return the n-th Fibonacci number",
        "n",
        "a, b = 0, 1\nfor _ in range(n):\n    a, b = b, a + b\nreturn a",
        "(6)",
        "8",
    ),
    (
        "gcd",
        "find the greatest common divisor of two numbers",
        "a, b",
        "while b:\n    a, b = b, a % b\nreturn a",
        "(12, 18)",
        "6",
    ),
    (
        "common_elements",
        "find the common elements of two lists",
        "first, second",
        "result = []\nfor item in first:\n    if item in second:\n        result.append(item)\n"
        "return result",
        "([1, 2, 3], [2, 3, 4])",
        "[2, 3]",
    ),
    (
        "sort_by_length",
        "sort a list of words by their length",
        "words",
        "return sorted(words, key=len)",
        "(['ccc', 'a', 'bb'])",
        "['a', 'bb', 'ccc']",
    ),
    (
        "square_list",
        "square each number in a list",
        "nums",
        "return [num * num for num in nums]",
        "([1, 2, 3])",
        "[1, 4, 9]",
    ),
    (
        "filter_positive",
        "keep the positive numbers of a list",
        "nums",
        "return [num for num in nums if num > 0]",
        "([1, -2, 3])",
        "[1, 3]",
    ),
    (
        "char_frequency",
        "count how often each character appears in a string",
        "text",
        "counts = {}\nfor char in text:\n    counts[char] = counts.get(char, 0) + 1\nreturn counts",
        "('aab')",
        "{'a': 2, 'b': 1}",
    ),
    (
        "sum_digits",
        "find the sum of the digits of a number",
        "n",
        "total = 0\nwhile n > 0:\n    total += n % 10\n    n //= 10\nreturn total",
        "(123)",
        "6",
    ),
    (
        "rectangle_area",
        "find the area of a rectangle",
        "length, width",
        "return length * width",
        "(3, 4)",
        "12",
    ),
    (
        "rotate_list",
        "rotate a list by k places to the left",
        "items, k",
        "k = k % len(items)\nreturn items[k:] + items[:k]",
        "([1, 2, 3, 4], 1)",
        "[2, 3, 4, 1]",
    ),
    (
        "count_words",
        "count the words in a sentence",
        "text",
        "return len(text.split())",
        "('a b c')",
        "3",
    ),
    (
        "all_unique",
        "check whether all elements of a list are different",
        "items",
        "return len(items) == len(set(items))",
        "([1, 2, 2])",
        "False",
    ),
    (
        "power",
        "raise a number to a power",
        "base, n",
        "result = 1\nfor _ in range(n):\n    result *= base\nreturn result",
        "(2, 5)",
        "32",
    ),
    (
        "flatten",
        "flatten a list of lists",
        "lists",
        "result = []\nfor inner in lists:\n    result.extend(inner)\nreturn result",
        "([[1], [2, 3]])",
        "[1, 2, 3]",
    ),
)
VERBS = ("", "get_", "my_", "find_", "do_", "check_", "compute_")
RENAMES = {
    "nums": ("nums", "numbers", "values", "lst", "test_list", "arr"),
    "text": ("text", "s", "string", "word"),
    "items": ("items", "lst", "elements"),
}


def function(rng: Random) -> Task:
    """A small function asked for by its docstring, or by a task with tests."""
    name, task, args, body, call, result = rng.choice(FUNCTIONS)
    name = rng.choice(VERBS) + name
    for old, names in RENAMES.items():
        if args == old:
            args = rng.choice(names)
            body = " ".join(body.split(" ")).replace(old, args)
    code = "\n".join(f"    {line}" for line in body.split("\n"))
    doc = f"{task[0].upper() + task[1:]}."
    kind = rng.randrange(3)
    if kind == 0:
        ask = "You are an expert Python programmer, and here is your task: Write a function to "
        ask += f"{task}. Your code should pass these tests:\n\nassert {name}{call} == {result}"
        return ask, f"```python\ndef {name}({args}):\n{code}\n```"
    if kind == 1:
        ask = f"Write a Python function `{name}`. {doc}"
        return ask, f'```python\ndef {name}({args}):\n    """{doc}"""\n{code}\n```'
    head = f'def {name}({args}):\n    """{doc}\n\n    >>> {name}{call}\n    {result}\n    """'
    ask = "Complete the following Python function. Reply with the full function in one code block."
    return f"{ask}\n\n```python\n{head}\n```", f"```python\n{head}\n{code}\n```"
