"""Recorded graphs with conditions on a GPU: the law's bits, and what is refused.

Run by `make test-gpu`.
"""

from __future__ import annotations

import threading
from functools import partial

import pytest
import torch
import triton
import triton.language as tl

from graph_programs import BODIES, Rounds
from hybridspec.kernels import support
from hybridspec.kernels.bench.graphs import Board
from hybridspec.kernels.bench.main import setting
from hybridspec.kernels.early import has_early, options, take_turn
from hybridspec.kernels.linear.norm import Next, Normed, embed
from hybridspec.runtime.graph import Eager, GraphError, executable, record

pytestmark = pytest.mark.gpu
DEVICE = torch.device("cuda", 0)
EARLY = torch.cuda.is_available() and has_early(DEVICE)
SIZE, BLOCK = 1 << 14, 64  # programs enough for several waves of blocks


def number(value: int) -> torch.Tensor:
    return torch.tensor(value, dtype=torch.int32, device=DEVICE)


def usable() -> bool:
    """Whether the stream is out of capture and runs work."""
    torch.cuda.synchronize()
    return not torch.cuda.is_current_stream_capturing() and int(number(3).add_(1)) == 4


def compiled_and_recorded(program, name="all", **options):
    """Recorded after a run of every body."""
    describe = getattr(program, name)
    for i in range(BODIES):
        program.body(i)(Eager())
    program.set(3)
    describe(Eager())
    return record(describe, DEVICE, **options)


def assert_same(made, program, lawful, name, rounds, state):
    for p in (program, lawful):
        p.set(rounds, state)
    getattr(lawful, name)(Eager())
    made.launch()
    assert program.values() == lawful.values(), (rounds, state)


@pytest.mark.parametrize("by_host", [False, True], ids=["device", "host"])
@pytest.mark.parametrize("name", ["all", "deep"])
def test_launched_it_leaves_what_the_law_leaves(name, by_host):
    """The law runs on the CPU: 17 bodies in a loop, and a loop in a switch in a loop."""
    program, lawful = Rounds(DEVICE), Rounds("cpu")
    made = compiled_and_recorded(program, name, by_host=by_host)
    assert (made.figures is None) == by_host
    for rounds, state in ((0, 3), (1, 3), (2, 4), (7, 11), (100, 2), (0, 1), (1, 1)):
        assert_same(made, program, lawful, name, rounds, state)


def test_recording_runs_nothing():
    program = Rounds(DEVICE)
    program.set(3)
    program.all(Eager())
    before = program.values()
    record(program.all, DEVICE)
    assert usable()
    assert program.values() == before


@pytest.mark.parametrize("index", range(BODIES))
def test_every_body_is_the_one_named(index):
    program, lawful = Rounds(DEVICE), Rounds("cpu")
    program.body(index)(Eager())

    def describe(p, r):
        r.switch(p.index, p.bodies(), p.damaged)

    made = record(partial(describe, program), DEVICE)
    for p in (program, lawful):
        p.set(0)
        p.index.fill_(index)
    describe(lawful, Eager())
    made.launch()
    assert program.values() == lawful.values()


@pytest.mark.parametrize("by_host", [False, True], ids=["device", "host"])
@pytest.mark.parametrize("index", [-1, BODIES, 2**31 - 1, -(2**31)])
def test_an_index_without_a_body_runs_the_last_and_is_told(index, by_host):
    program = Rounds(DEVICE)
    program.body(BODIES - 1)(Eager())

    def describe(r):
        r.switch(program.index, program.bodies(), program.damaged)

    made = record(describe, DEVICE, by_host=by_host)
    program.set(0, state=0)
    program.index.fill_(index)
    made.launch()
    assert int(program.damaged) == 1
    assert int(program.state) == BODIES - 1  # an even one: a single mix of it
    program.set(0, state=0)
    made.launch()
    assert int(program.damaged) == 0


def test_launches_are_queued_and_one_behind_a_stop_runs_no_round():
    """Nobody waits between them: the second begins with what the first leaves."""
    program, lawful = Rounds(DEVICE), Rounds("cpu")
    made = compiled_and_recorded(program)
    for p in (program, lawful):
        p.set(9)
    for _ in range(2):
        made.launch()
        lawful.all(Eager())
    assert program.values() == lawful.values()
    assert int(program.rounds) == 9


def test_it_runs_on_the_current_stream_behind_what_is_there():
    program, lawful = Rounds(DEVICE), Rounds("cpu")
    made = compiled_and_recorded(program)
    torch.cuda.synchronize()
    stream = torch.cuda.Stream(DEVICE)
    with torch.cuda.stream(stream):
        torch.cuda._sleep(20_000_000)
        program.set(4, state=6)
        made.launch()
    stream.synchronize()
    lawful.set(4, state=6)
    lawful.all(Eager())
    assert program.values() == lawful.values()


@triton.jit
def _step(source, to, SIZE: tl.constexpr, BLOCK: tl.constexpr, EARLY: tl.constexpr):
    """Every value becomes its neighbour's from the kernel before, plus 1."""
    take_turn(EARLY)
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(to + at, tl.load(source + (at + 4097) % SIZE) + 1)


class Chain:
    """Kernels each of which needs all of the one before it, launched early where the GPU can."""

    def __init__(self):
        self.a, self.b = (torch.zeros(SIZE, dtype=torch.int32, device=DEVICE) for _ in range(2))
        self.index, self.damaged, self.left, self.going = (number(0) for _ in range(4))

    def steps(self, count: int) -> None:
        """An even number of them, so that `a` has the last."""
        assert count % 2 == 0
        for i in range(count):
            pair = (self.a, self.b) if i % 2 == 0 else (self.b, self.a)
            _step[(SIZE // BLOCK,)](*pair, SIZE, BLOCK, EARLY, **options(EARLY))

    def count(self) -> None:
        self.left.sub_(1)
        self.going.copy_(self.left)

    def describe(self, r) -> None:
        """2 + rounds (4 + 2 (index + 1) + 6) + 8 steps."""

        def one(r):
            r.run(partial(self.steps, 4))
            bodies = [lambda r, i=i: r.run(partial(self.steps, 2 * i + 2)) for i in range(BODIES)]
            r.switch(self.index, bodies, self.damaged)
            r.run(partial(self.steps, 6))
            r.run(self.count)

        r.run(partial(self.steps, 2))
        r.loop(self.going, one)
        r.run(partial(self.steps, 8))

    def set(self, rounds: int, index: int) -> None:
        self.a.zero_()
        self.left.fill_(rounds)
        self.going.fill_(rounds)
        self.index.fill_(index)


@pytest.mark.parametrize("rounds", [0, 1, 20])
def test_early_kernels_keep_their_order_inside_and_around_conditions(rounds):
    chain = Chain()
    chain.set(1, 0)
    chain.describe(Eager())
    made = record(chain.describe, DEVICE)
    for index in (0, 5, BODIES - 1):
        for _ in range(5):  # a race would show now and then
            chain.set(rounds, index)
            made.launch()
            steps = 2 + rounds * (4 + 2 * (index + 1) + 6) + 8
            assert torch.equal(chain.a, torch.full_like(chain.a, steps))


@pytest.mark.skipif(not EARLY, reason="the GPU launches nothing early")
def test_edges_stay_programmatic_inside_pieces_and_bodies():
    chain = Chain()
    chain.set(1, 0)
    chain.describe(Eager())
    figures = record(chain.describe, DEVICE).figures
    inside = sum(2 * i + 2 for i in range(BODIES))
    steps = 2 + 4 + inside + 6 + 8
    arms, counting = 3, 1  # torch copies a number by a node that is no kernel
    assert figures.kernels == steps + arms + counting
    # the first of a graph, of every body, and behind a condition wait for no kernel's start
    assert figures.early == (2 - 1) + (4 - 1) + (inside - BODIES) + (6 - 1) + (8 - 1)


@pytest.mark.skipif(not EARLY, reason="the GPU launches nothing early")
def test_edges_stay_programmatic_between_pieces():
    chain = Chain()
    chain.steps(2)

    def describe(r):
        for _ in range(3):
            r.run(partial(chain.steps, 2))

    made = record(describe, DEVICE)
    assert made.figures.early == 5
    chain.set(0, 0)
    made.launch()
    assert torch.equal(chain.a, torch.full_like(chain.a, 6))


def test_our_kernels_are_recorded_early_into_bodies():
    """`embed` in bf16, another row of tokens a body."""
    n, rows = 256, 16
    embedding = torch.randn(64, n, device=DEVICE, dtype=torch.bfloat16)
    tokens = torch.arange(48, device=DEVICE, dtype=torch.int32).view(3, rows)
    x = torch.empty(rows, n, device=DEVICE, dtype=torch.bfloat16)
    after = Next(torch.ones(n, device=DEVICE), Normed.empty(n, torch.bfloat16, DEVICE))
    index, damaged = number(0), number(0)

    def body(i):
        work = partial(embed, tokens[i], embedding, x, after, early=EARLY)
        return lambda r: [r.run(work), r.run(work)]

    def describe(r):
        r.switch(index, [body(i) for i in range(3)], damaged)

    body(0)(Eager())
    made = record(describe, DEVICE)
    for i in (2, 0, 1):
        index.fill_(i)
        made.launch()
        assert torch.equal(x, embedding[tokens[i].long()])


def test_kernels_may_arm_conditions_themselves():
    board = Board(setting("small"), 3, 2)

    def describe(r):
        board.loop(r, lambda r: board.switch(r, board.choose), board.count)

    describe(Eager())
    board.tiny.zero_()
    made = record(describe, DEVICE)
    made.launch()
    assert int(board.left) == int(board.going) == int(board.damaged) == 0
    assert torch.equal(board.tiny, torch.full_like(board.tiny, board.rounds * board.kernels))
    # one fill of each flag in front and one arm; choose and its bodies; count
    assert made.figures.kernels == 2 + 1 + 1 + board.size * board.kernels + 1


@pytest.mark.parametrize("by_host", [False, True], ids=["device", "host"])
def test_work_that_allocates_is_refused_by_name(by_host):
    a = torch.zeros(4, device=DEVICE)

    def allocates():
        a.add_(a + 1)

    allocates()
    with pytest.raises(GraphError, match=r"allocates.*asked for memory on cuda:0 1 times"):
        record(lambda r: r.run(allocates), DEVICE, by_host=by_host)
    assert usable()


def test_work_that_waits_is_refused_by_name():
    a = number(3)

    def waits():
        a.add_(1)
        a.item()

    with pytest.raises(GraphError, match=r"Piece 1 of the graph \(.*waits\) cannot be captured"):
        record(lambda r: r.run(waits), DEVICE)
    assert usable()


@pytest.mark.parametrize("by_host", [False, True], ids=["device", "host"])
def test_a_description_that_fails_leaves_streams_usable(by_host):
    program, lawful = Rounds(DEVICE), Rounds("cpu")

    def fails():
        program.mix(1)
        raise ValueError("its own")

    def body(r):
        r.run(partial(program.mix, 2))
        r.run(fails)

    with pytest.raises(ValueError, match="its own"):
        record(lambda r: r.loop(program.going, body), DEVICE, by_host=by_host)
    assert usable()
    made = compiled_and_recorded(program, by_host=by_host)
    assert_same(made, program, lawful, "all", 5, 8)


def test_a_condition_on_another_device_is_refused():
    with pytest.raises(GraphError, match="on cpu; expected cuda:0"):
        record(lambda r: r.loop(number(0).cpu(), lambda r: None), DEVICE)


def test_a_body_may_be_empty():
    program = Rounds(DEVICE)
    program.mix(1)

    def describe(r):
        bodies = [lambda r: None, lambda r: r.run(partial(program.mix, 4))]
        r.switch(program.index, bodies, program.damaged)

    made = record(describe, DEVICE)
    for index, state in ((0, 7), (1, 7 * 31 + 4)):
        program.set(0, state=7)
        program.index.fill_(index)
        made.launch()
        assert int(program.state) == state


def test_bodies_may_begin_with_an_empty_node():
    program, lawful = Rounds(DEVICE), Rounds("cpu")
    made = compiled_and_recorded(program, empty_first=True)
    assert_same(made, program, lawful, "all", 6, 3)


def test_a_driver_without_switches_is_told_of_once(monkeypatch):
    monkeypatch.setattr(support, "_said", {})
    monkeypatch.setattr(executable, "unable", lambda: "the driver serves CUDA 12.4")
    program, lawful = Rounds(DEVICE), Rounds("cpu")
    made = compiled_and_recorded(program)
    record(program.all, DEVICE)
    assert made.figures is None
    (said,) = support.said()
    assert "The host reads the conditions" in said
    assert "CUDA 12.4" in said
    assert_same(made, program, lawful, "all", 6, 3)


def test_figures_are_of_all_bodies_and_memory_comes_back():
    program = Rounds(DEVICE)
    made = compiled_and_recorded(program)
    figures = made.figures
    # mix: 2 kernels. Two of them around the loop, two arms of it; choose 2, an arm, count 3
    assert figures.kernels == 2 * 2 + 2 + 2 + 1 + 3 + 2 * (BODIES + BODIES // 2)
    assert figures.capture_ms > 0
    assert figures.instantiate_ms > 0
    assert figures.memory >= 0


def test_a_thread_of_its_own_may_record_and_launch():
    program, lawful = Rounds(DEVICE), Rounds("cpu")
    failed = []

    def work():
        try:
            made = compiled_and_recorded(program)
            assert_same(made, program, lawful, "all", 5, 2)
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert failed == []
