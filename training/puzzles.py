# ruff: noqa: E501 - the lines are sentences
"""Reasoning and arithmetic tasks with worked answers, generated from a seed. All wording is our own."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from random import Random

Task = tuple[str, str]
NAMES = [
    "Anna",
    "Ben",
    "Carla",
    "David",
    "Emma",
    "Frank",
    "Grace",
    "Henry",
    "Irene",
    "Jack",
    "Karen",
    "Leo",
    "Maria",
    "Noah",
    "Olga",
    "Peter",
    "Quinn",
    "Rosa",
    "Sam",
    "Tina",
    "Umar",
    "Vera",
    "Walter",
    "Xenia",
    "Yusuf",
    "Zoe",
    "Alice",
    "Bob",
    "Claire",
    "Dave",
    "Eve",
    "Fred",
    "Liam",
    "Mona",
    "Nina",
    "Oscar",
]
COLOURS = [
    "red",
    "blue",
    "green",
    "yellow",
    "black",
    "white",
    "brown",
    "purple",
    "orange",
    "pink",
    "gray",
    "silver",
    "gold",
]
THINGS = [
    "pen",
    "book",
    "cup",
    "ball",
    "key",
    "hat",
    "lamp",
    "box",
    "coin",
    "scarf",
    "ring",
    "stone",
    "bottle",
    "pencil",
    "mug",
    "card",
]
FRUITS = [
    "apple",
    "pear",
    "plum",
    "peach",
    "mango",
    "melon",
    "lemon",
    "cherry",
    "fig",
    "banana",
    "orange",
    "grape",
]
ANIMALS = [
    "cow",
    "horse",
    "dog",
    "cat",
    "goat",
    "sheep",
    "duck",
    "rabbit",
    "pig",
    "chicken",
    "frog",
    "mouse",
]
TOOLS = ["hammer", "saw", "drill", "wrench", "chisel", "shovel", "rake", "ladder", "brush", "file"]
NUMBERS = [
    "zero",
    "one",
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
    "ten",
    "eleven",
    "twelve",
]
ASK = "\n\nThink step by step, then give the final answer."
MONTHS = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
]


def ask(rng: Random) -> str:
    """Return an instruction that asks for steps."""
    return rng.choice((ASK, ASK, ASK, "\n\nLet's think step by step.", ""))


def options(choices: list[str]) -> str:
    """Lay out lettered options."""
    return "Options:\n" + "\n".join(f"({chr(65 + i)}) {c}" for i, c in enumerate(choices))


def boolean(rng: Random) -> Task:
    """Evaluate a boolean expression from the inside out."""

    def build(depth: int) -> str:
        if depth == 0:
            return rng.choice(("True", "False", "not True", "not False"))
        left, right = build(rng.randrange(depth)), build(rng.randrange(depth))
        inner = f"( {left} {rng.choice(('and', 'or'))} {right} )"
        return f"not {inner}" if rng.random() < 0.4 else inner

    expr = build(rng.randint(1, 3))
    if expr.startswith("( "):
        expr = expr[2:-2]
    steps = [
        "Remember that (i) the parts inside brackets come first and (ii) the order of the rest is"
    ]
    steps[0] += ' "not", "and", "or".'
    now = expr
    while now not in ("True", "False"):
        new = now
        for value in ("True", "False"):
            new = new.replace(f"not {value}", str(value == "False"))
        for first in ("True", "False"):
            for second in ("True", "False"):
                for op in ("and", "or"):
                    result = str(eval(f"{first} {op} {second}"))
                    new = new.replace(f"( {first} {op} {second} )", result)
        if new == now:
            new = str(eval(now))
        steps.append(f"{now} = {new}")
        now = new
    return f"{expr} is{ask(rng)}", "\n".join(steps) + f"\nSo the answer is {now}."


def ordering(rng: Random) -> Task:
    """Order objects from clues about neighbours and ends."""
    n = rng.choice((3, 3, 5, 5, 7))
    word = {3: "three", 5: "five", 7: "seven"}[n]
    kind, first, last, rel, pool = rng.choice(
        (
            (
                "On a shelf, there are {} books",
                "the leftmost",
                "the rightmost",
                "to the left of",
                0,
            ),
            (
                "On a branch, there are {} birds",
                "the leftmost",
                "the rightmost",
                "to the left of",
                1,
            ),
            ("In a race, there were {} runners", "first", "last", "ahead of", 2),
            (
                "A shop sells {} fruits",
                "the cheapest",
                "the most expensive",
                "less expensive than",
                3,
            ),
            ("A garage has {} vehicles", "the oldest", "the newest", "older than", 4),
        )
    )
    pools = (
        [f"the {c} book" for c in COLOURS],
        [
            f"the {b}"
            for b in [
                "robin",
                "crow",
                "hawk",
                "owl",
                "jay",
                "quail",
                "raven",
                "falcon",
                "finch",
                "wren",
            ]
        ],
        list(NAMES),
        [f"the {f}s" for f in FRUITS],
        [
            f"the {v}"
            for v in [
                "truck",
                "sedan",
                "bus",
                "van",
                "tractor",
                "convertible",
                "limousine",
                "wagon",
                "bike",
            ]
        ],
    )
    order = rng.sample(pools[pool], n)
    verb = "finished" if pool == 2 else ("are" if pool == 3 else "is")
    shuffled = rng.sample(order, n)
    listing = ", ".join(shuffled[:-1]) + f", and {shuffled[-1]}"
    clues = [f"{a} {verb} {rel} {b}." for a, b in itertools.pairwise(order)]
    clues = [c[0].upper() + c[1:] for c in clues]
    told = rng.sample(clues, len(clues))
    place = rng.choice((0, n - 1, n // 2))
    label = {0: first, n - 1: last}.get(place, "in the middle")
    choices = [f"{x[0].upper() + x[1:]} {verb} {label}" for x in shuffled]
    intro = (
        f"The following paragraphs each describe a set of {word} objects arranged in a fixed order. "
        "The statements are logically consistent within each paragraph. "
    )
    text = f"{intro if rng.random() < 0.7 else ''}{kind.format(word)}: {listing}. {' '.join(told)}"
    right = shuffled.index(order[place])
    lines = [f"The clues say: {' '.join(told)}"]
    lines.append(f"Putting them together, the order from {first} to {last} is:")
    lines += [f"({i + 1}) {x}" for i, x in enumerate(order)]
    lines.append(
        f"So {choices[right][0].lower() if pool != 2 else choices[right][0]}{choices[right][1:]}."
    )
    lines.append(f"The answer is ({chr(65 + right)}).")
    return f"{text}\n{options(choices)}{ask(rng)}", "\n".join(lines)


def counting(rng: Random) -> Task:
    """Count the objects of one kind."""
    kinds = {"fruits": FRUITS, "animals": ANIMALS, "tools": TOOLS}
    want, other = rng.sample(list(kinds), 2)
    items = [(x, want) for x in rng.sample(kinds[want], rng.randint(2, 5))]
    items += [(x, other) for x in rng.sample(kinds[other], rng.randint(0, 2))]
    rng.shuffle(items)
    counts = [rng.choice((1, 1, 1, 2, 3, 4)) for _ in items]

    def show(name: str, count: int) -> str:
        an = "an" if name[0] in "aeiou" else "a"
        plural = {"mouse": "mice", "sheep": "sheep"}.get(
            name, name + ("es" if name[-1] == "h" else "s")
        )
        return f"{an} {name}" if count == 1 else f"{NUMBERS[count]} {plural}"

    parts = [show(x, c) for (x, _), c in zip(items, counts, strict=True)]
    text = f"I have {', '.join(parts[:-1])}, and {parts[-1]}. How many {want} do I have?"
    kept = [(x, c) for (x, k), c in zip(items, counts, strict=True) if k == want]
    total = sum(c for _, c in kept)
    lines = [f"We first list the {want} and how many there are of each:"]
    lines += [f"- {x}: {c}" for x, c in kept]
    lines.append(f"Now we add the numbers: {' + '.join(str(c) for _, c in kept)} = {total}.")
    lines.append(f"The answer is {total}.")
    return text + ask(rng), "\n".join(lines)


def navigate(rng: Random) -> Task:
    """Follow steps and turns on a grid."""
    forward = rng.random() < 0.5
    x = y = 0
    moves, lines = [], ["We start at the origin (0, 0), facing the positive y-axis."]
    facing = 0
    deltas = ((0, 1), (1, 0), (0, -1), (-1, 0))
    for i in range(rng.randint(3, 6)):
        n = rng.randint(1, 10)
        steps = f"{n} step{'s' if n > 1 else ''}"
        if forward:
            way = rng.choice(("forward", "backward", "left", "right"))
            turn = {"forward": 0, "right": 1, "backward": 2, "left": 3}[way]
            dx, dy = deltas[turn]
            x, y = x + n * dx, y + n * dy
            moves.append(f"Take {steps} {way}.")
        elif rng.random() < 0.45:
            way = rng.choice(("left", "right", "around"))
            facing = (facing + {"right": 1, "around": 2, "left": 3}[way]) % 4
            moves.append(f"Turn {way}.")
        else:
            dx, dy = deltas[facing]
            x, y = x + n * dx, y + n * dy
            moves.append(f"Take {steps}.")
        face = ("the positive y-axis", "the positive x-axis", "the negative y-axis")
        names = (*face, "the negative x-axis")
        lines.append(f"({i + 1}) {moves[-1][:-1]}: ({x}, {y}), facing {names[facing]}.")
    always = "Always face forward. " if forward else ""
    text = "If you follow these instructions, do you return to the starting point? "
    text += always + " ".join(moves) + "\nOptions:\n- Yes\n- No" + ask(rng)
    home = x == 0 and y == 0
    lines.append(
        f"The final position is ({x}, {y}), which is {'' if home else 'not '}where we started."
    )
    lines.append(f"So the answer is {'Yes' if home else 'No'}.")
    return text, "\n".join(lines)


def lies(rng: Random) -> Task:
    """Decide who tells the truth along a chain."""
    people = rng.sample(NAMES, rng.randint(3, 5))
    truth = rng.random() < 0.5
    clues = [f"{people[0]} {'tells the truth' if truth else 'lies'}."]
    lines = [f"(1) {people[0]} {'tells the truth' if truth else 'lies'}, as the question says."]
    for i, (before, who) in enumerate(itertools.pairwise(people)):
        claim = rng.random() < 0.5
        word = "tells the truth" if claim else "lies"
        clues.append(f"{who} says {before} {word}.")
        fact = "tells the truth" if truth else "lies"
        truth = claim == truth
        verdict = "tells the truth" if truth else "lies"
        lines.append(
            f"({i + 2}) {who} says that {before} {word}. Since we know from step ({i + 1}) that "
            f"{before} {fact}, {who} {verdict}."
        )
    text = f"Question: {' '.join(clues)} Does {people[-1]} tell the truth?{ask(rng)}"
    lines.append(f"So the answer is {'Yes' if truth else 'No'}.")
    return text, "\n".join(lines)


def swaps(rng: Random) -> Task:
    """Track objects through swaps."""
    n = rng.choice((3, 3, 5, 7))
    people = NAMES[26 : 26 + n] if rng.random() < 0.4 and n <= 6 else rng.sample(NAMES, n)
    held = [
        f"{c} {rng.choice(('ball', 'present', 'book', 'card'))}" for c in rng.sample(COLOURS, n)
    ]
    start = list(held)
    have = [f"{p} has a {h}" for p, h in zip(people, held, strict=True)]
    lines = ["At the start: " + ", ".join(have) + "."]
    told = []
    for i in range(rng.randint(3, 4)):
        a, b = rng.sample(range(n), 2)
        held[a], held[b] = held[b], held[a]
        word = ("First", "Then", "Next", "Finally")[min(i, 3)]
        told.append(f"{word}, {people[a]} and {people[b]} swap.")
        lines.append(
            f"({i + 1}) {people[a]} and {people[b]} swap: {people[a]} has the {held[a]}, "
            f"{people[b]} has the {held[b]}."
        )
    who = rng.randrange(n)
    names = ", ".join(people[:-1]) + f", and {people[-1]}"
    listing = ", ".join(have[:-1]) + f", and {have[-1]}"
    text = f"{names} are playing a game. At the start of the game, {listing}.\n"
    text += f"As the game goes on, pairs of players swap what they hold. {' '.join(told)} "
    text += f"At the end of the game, {people[who]} has the\n{options(start)}{ask(rng)}"
    lines.append(f"At the end, {people[who]} has the {held[who]}.")
    lines.append(f"The answer is ({chr(65 + start.index(held[who]))}).")
    return text, "\n".join(lines)


def comparison(rng: Random) -> Task:
    """Find the extreme of a chain of comparisons."""
    n = rng.randint(3, 5)
    people = list("ABCDE"[:n]) if rng.random() < 0.3 else rng.sample(NAMES, n)
    rng.shuffle(people)
    more, most, least = rng.choice(
        (
            ("taller", "tallest", "shortest"),
            ("older", "oldest", "youngest"),
            ("faster", "fastest", "slowest"),
            ("heavier", "heaviest", "lightest"),
            ("richer", "richest", "poorest"),
        )
    )
    pairs = list(itertools.pairwise(people))
    clues = [f"{a} is {more} than {b}" for a, b in pairs]
    told = rng.sample(clues, len(clues))
    top = rng.random() < 0.6
    want, who = (most, people[0]) if top else (least, people[-1])
    text = f"{', '.join(told[:-1])} and {told[-1]}. Who is the {want}?{ask(rng)}"
    lines = [f"We know that {c}." for c in clues]
    lines.append(f"So the order from the {most} to the {least} is: {', '.join(people)}.")
    lines.append(f"The {want} is {who}.\nThe answer is {who}.")
    return text, "\n".join(lines)


def dates(rng: Random) -> Task:
    """Move a date by some days or weeks."""
    month, day = rng.randrange(12), rng.randint(1, 28)
    word, shift = rng.choice((("tomorrow", 1), ("yesterday", -1), ("one week from today", 7)))
    days = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
    m, d = month, day + shift
    if d < 1:
        m = (m - 1) % 12
        d += days[m]
    elif d > days[m]:
        d -= days[m]
        m = (m + 1) % 12
    text = f"Today is {MONTHS[month]} {day}. What is the date {word}?{ask(rng)}"
    lines = [f"Today is {MONTHS[month]} {day}."]
    move = (
        "one day later" if shift == 1 else ("one day earlier" if shift < 0 else "seven days later")
    )
    lines.append(f"The question asks for the date {word}, which is {move}.")
    lines.append(f"{day} {'+' if shift > 0 else '-'} {abs(shift)} = {day + shift}, so it is")
    lines[-1] += f" {MONTHS[m]} {d}."
    lines.append(f"The answer is {MONTHS[m]} {d}.")
    return text, "\n".join(lines)


def sorting(rng: Random) -> Task:
    """Sort words alphabetically."""
    words = rng.sample(sorted({*THINGS, *FRUITS, *ANIMALS, *TOOLS, *COLOURS}), rng.randint(4, 8))
    text = f"Sort the following words alphabetically: List: {' '.join(words)}{ask(rng)}"
    lines = ["We look at the first letter of each word:"]
    lines += [f"- {w}: {w[0]}" for w in words]
    lines.append("In alphabetical order they are:")
    lines += [f"({i + 1}) {w}" for i, w in enumerate(sorted(words))]
    lines.append(f"The answer is {' '.join(sorted(words))}.")
    return text, "\n".join(lines)


def syllogism(rng: Random) -> Task:
    """Judge whether an argument of two premises is valid."""
    roles = (
        "baker lawyer painter dancer sailor farmer doctor teacher poet cousin friend loyal customer"
    )
    a, b, c = rng.sample(roles.replace("loyal customer", "customer").split(), 3)
    valid = rng.random() < 0.5
    last = f"Therefore, every {a} is a {c}." if valid else f"Therefore, every {c} is a {a}."
    text = f'"First, every {a} is a {b}. Second, every {b} is a {c}. {last}"\n'
    text += "Is the argument, given the explicitly stated premises, deductively valid or invalid?\n"
    text += f"Options:\n- valid\n- invalid{ask(rng)}"
    lines = [f"(1) Every {a} is a {b}: if X is a {a}, then X is a {b}."]
    lines.append(f"(2) Every {b} is a {c}: if X is a {b}, then X is a {c}.")
    lines.append(f"By (1) and (2), if X is a {a}, then X is a {c}.")
    lines.append(f"The conclusion says: {last}")
    lines.append(
        "This follows from the premises." if valid else "This does not follow from the premises."
    )
    lines.append(f"So the answer is {'valid' if valid else 'invalid'}.")
    return text, "\n".join(lines)


def pronoun(rng: Random) -> Task:
    """Say whom a pronoun means, or that it is unclear."""
    people = (
        "nurse patient chef customer guard driver lawyer client teacher student manager assistant"
    )
    a, b = rng.sample(people.split(), 2)
    verb, why, who = rng.choice(
        (
            ("thanked the {b} because", "had been very helpful", 1),
            ("apologised to the {b} because", "had come too late", 0),
            ("met with the {b} and", "talked about the plan", 2),
            ("paid the {b} after", "finished the work", 1),
            ("asked the {b} for help because", "could not do it alone", 0),
            ("told the {b} that", "would be away next week", 2),
        )
    )
    word = rng.choice(("he", "she", "they"))
    text = "In the following sentences, explain the antecedent of the pronoun (which thing the pronoun "
    text += "refers to), or state that it is ambiguous.\n"
    text += f"Sentence: The {a} {verb.format(b=b)} {word} {why}.\n"
    text += options([f"The {a} {why}", f"The {b} {why}", "Ambiguous"]) + ask(rng)
    lines = [f'We ask whom "{word}" means: the {a} or the {b}.']
    lines.append(f"If it is the {a}, the sentence says that the {a} {why}.")
    lines.append(f"If it is the {b}, the sentence says that the {b} {why}.")
    end = (f"The {a} fits best here.", f"The {b} fits best here.", "Both readings make sense here.")
    lines.append(end[who])
    lines.append(f"The answer is ({'ABC'[who]}).")
    return text, "\n".join(lines)


def race(rng: Random) -> Task:
    """Work out a place after overtaking."""
    word, n = rng.choice((("second", 2), ("third", 3), ("fourth", 4), ("fifth", 5)))
    text = f"You are running a race and you overtake the person in {word} place. What place are you in?"
    lines = [f"The person you overtook was in {word} place."]
    lines.append("When you pass someone, you take that person's place.")
    lines.append(
        f"So you are now in {word} place, and the person you overtook is one place behind you."
    )
    lines.append(f"The answer is {n}.")
    return text + ask(rng), "\n".join(lines)


def cooking(rng: Random) -> Task:
    """Suggest dishes for what is in the kitchen."""
    food = "potatoes milk cheese eggs rice beans bacon cream tomatoes onions carrots chicken pasta flour"
    items = rng.sample(food.split(), rng.randint(2, 4))
    listing = ", ".join(items[:-1]) + f" and {items[-1]}"
    text = f"I have {listing}. {rng.choice(('What can I cook?', 'What can I make with these?'))}"
    dishes = rng.sample(("soup", "salad", "pie", "stew", "omelette", "casserole", "gratin"), 3)
    lines = [f"With {listing} you can make several simple dishes:"]
    for i, dish in enumerate(dishes):
        a, b = rng.sample(items, 2)
        way = rng.choice(("in the oven", "in a pan", "in a pot"))
        lines.append(
            f"{i + 1}. {a.capitalize()} {dish}: cut the {a}, add the {b} and cook them {way} until done."
        )
    lines.append(f"The easiest one is the {dishes[0]}, because it needs only what you have.")
    return text, "\n".join(lines)


def word_problem(rng: Random) -> Task:
    """Solve a small arithmetic story."""
    who, other = rng.sample(NAMES, 2)
    item = rng.choice([*THINGS, *FRUITS]) + "s"
    item = item.replace("boxs", "boxes").replace("brushs", "brushes").replace("peachs", "peaches")
    item = item.replace("cherrys", "cherries").replace("mangos", "mangoes")
    a, b, c = rng.randint(2, 60), rng.randint(2, 30), rng.randint(2, 9)
    kind = rng.randrange(6)
    if kind == 0:
        text = f"{who} has {a} {item}. {other} gives {who} {b} more, and then {who} buys {c} times as many "
        text += f"as {other} gave. How many {item} does {who} have now?"
        lines = [f"{who} buys {c} x {b} = {c * b} {item}."]
        lines.append(f"Now {who} has {a} + {b} + {c * b} = {a + b + c * b} {item}.")
        end = a + b + c * b
    elif kind == 1:
        text = f"A box holds {a} {item}. {who} buys {c} boxes and gives {b} {item} to {other}. "
        text += f"How many {item} does {who} have left?"
        lines = [f"The boxes hold {c} x {a} = {c * a} {item}."]
        lines.append(f"After giving away {b}, {who} has {c * a} - {b} = {c * a - b} {item} left.")
        end = c * a - b
    elif kind == 2:
        text = f"{who} earns ${a} an hour and works {c} hours a day. How much does {who} earn in {b} days?"
        lines = [f"{who} earns {a} x {c} = ${a * c} a day."]
        lines.append(f"In {b} days {who} earns {a * c} x {b} = ${a * c * b}.")
        end = a * c * b
    elif kind == 3:
        total = a * c
        text = f"{who} shares {total} {item} equally among {c} friends. Each friend then finds {b} more. "
        text += f"How many {item} does each friend have?"
        lines = [f"Each friend gets {total} / {c} = {a} {item}."]
        lines.append(f"With {b} more, each friend has {a} + {b} = {a + b} {item}.")
        end = a + b
    elif kind == 4:
        text = f"A {item[:-1]} costs ${c} and a {rng.choice(THINGS)} costs ${b}. {who} buys {a} {item} and "
        text += f"one of the other. How much does {who} pay?"
        lines = [f"The {item} cost {a} x {c} = ${a * c}."]
        lines.append(f"The total is {a * c} + {b} = ${a * c + b}.")
        end = a * c + b
    else:
        text = f"{who} reads {a} pages on Monday and {b} pages more than that on Tuesday. "
        text += f"How many pages does {who} read on both days?"
        lines = [f"On Tuesday {who} reads {a} + {b} = {a + b} pages."]
        lines.append(f"On both days {who} reads {a} + {a + b} = {2 * a + b} pages.")
        end = 2 * a + b
    return text, "\n".join([*lines, f"The answer is {end}."])


REASONING: tuple[Callable[[Random], Task], ...] = (
    boolean,
    ordering,
    ordering,
    ordering,
    counting,
    navigate,
    lies,
    swaps,
    comparison,
    comparison,
    dates,
    sorting,
    syllogism,
    pronoun,
    pronoun,
    race,
    cooking,
    cooking,
)
