from __future__ import annotations

import threading
from dataclasses import dataclass

from hybridspec.serving.line import Line


@dataclass(eq=False)
class Someone:
    client: str
    name: str = ""
    cancelled = False


def people(*names: str) -> list[Someone]:
    return [Someone(name[0], name) for name in names]


def test_one_client_is_served_in_order():
    line = Line(9)
    for one in people("a1", "a2", "a3"):
        assert line.add(one)
    assert [line.take().name for _ in range(3)] == ["a1", "a2", "a3"]


def test_clients_take_turns():
    line = Line(9)
    for one in people("a1", "a2", "a3", "b1", "c1", "b2"):
        line.add(one)
    assert [line.take().name for _ in range(6)] == ["a1", "b1", "c1", "a2", "b2", "a3"]


def test_who_comes_back_stands_behind_others():
    line = Line(9)
    for one in people("a1", "b1"):
        line.add(one)
    assert line.take().name == "a1"
    line.add(Someone("a", "a2"))
    assert [line.take().name for _ in range(2)] == ["b1", "a2"]


def test_a_full_line_takes_nobody_but_who_goes_on():
    line = Line(1)
    first, second = people("a1", "b1")
    assert line.add(first)
    assert not line.add(second)
    assert line.add(second, again=True)
    assert len(line) == 2


def test_who_leaves_is_not_served_and_makes_room():
    line = Line(2)
    first, second, third = people("a1", "a2", "b1")
    line.add(first)
    line.add(second)
    line.leave(first)
    line.leave(first)
    assert line.add(third)
    assert [line.take(), line.take()] == [second, third]


def test_taking_waits_for_somebody():
    line, found = Line(1), []
    thread = threading.Thread(target=lambda: found.append(line.take()))
    thread.start()
    line.add(Someone("a"))
    thread.join(10)
    assert found[0].client == "a"


def test_closing_tells_who_waited_and_ends_the_taking():
    line = Line(3)
    everybody = people("a1", "b1")
    for one in everybody:
        line.add(one)
    assert line.close() == everybody
    assert line.take() is None
    assert not line.add(Someone("a"), again=True)
