"""What a description becomes: nodes, edges and bodies, by a driver that is made up."""

from __future__ import annotations

import gc
import weakref
from functools import partial
from types import SimpleNamespace

import pytest
import torch

from graph_programs import BODIES, Rounds
from hybridspec.runtime.graph import Eager, GraphError, allocations, executable, nodes
from hybridspec.runtime.graph.recording import Recording, Site
from made_up_driver import EARLY, TYPES, Arms, Driver, arm_switch

KERNEL, EMPTY = TYPES.CU_GRAPH_NODE_TYPE_KERNEL, TYPES.CU_GRAPH_NODE_TYPE_EMPTY
CONDITIONAL = TYPES.CU_GRAPH_NODE_TYPE_CONDITIONAL
CPU = torch.device("cpu")
STREAM = 5


@pytest.fixture
def driver(monkeypatch):
    made = Driver()
    monkeypatch.setattr(nodes, "driver", made)
    monkeypatch.setattr(allocations, "allocated", lambda device: 0)
    return made


@pytest.fixture
def recording(driver):
    site = Site(CPU, STREAM, Arms(driver))
    return Recording(site, nodes.new_graph())


def graph_of(recording):
    return recording._site.graphs[0]


def launch(recording):
    made = nodes.instantiate(graph_of(recording), STREAM)
    nodes.launch(made, STREAM)
    return made


def kinds(driver, graph):
    return [driver.nodes[n].kind for n in driver.graphs[int(graph)]]


def edges(driver, graph):
    return [list(driver.nodes[n].after.values()) for n in driver.graphs[int(graph)]]


def nothing(driver, *, early=False):
    return partial(driver.launch, lambda: None, early=early)


def number(value):
    return torch.tensor(value, dtype=torch.int32)


@pytest.mark.parametrize("name", ["all", "deep"])
def test_launched_it_leaves_what_the_law_leaves(driver, recording, name):
    lawful, ours = Rounds("cpu"), Rounds("cpu", driver.launch)
    before = ours.values()
    getattr(ours, name)(recording)
    assert ours.values() == before, "recording runs nothing"
    made = nodes.instantiate(graph_of(recording), STREAM)
    for rounds, state in ((0, 3), (1, 3), (7, 11), (40, 2), (0, 1)):
        for program in (lawful, ours):
            program.set(rounds, state)
        getattr(lawful, name)(Eager())
        nodes.launch(made, STREAM)
        assert ours.values() == lawful.values(), (rounds, state)


def test_a_launch_behind_a_stop_runs_no_round(driver, recording):
    program = Rounds("cpu", driver.launch)
    program.set(3)
    recording.loop(program.going, program.one)
    made = launch(recording)
    assert program.rounds == 3
    nodes.launch(made, STREAM)
    assert program.rounds == 3


@pytest.mark.parametrize("index", [-5, 3, 2**31 - 1])
def test_an_index_without_a_body_runs_the_last_and_is_told(driver, recording, index):
    program = Rounds("cpu", driver.launch)
    program.set(0, state=0)
    program.index.fill_(index)
    recording.switch(program.index, program.bodies(3), program.damaged)
    launch(recording)
    assert program.damaged == 1
    assert program.state == 2


def test_pieces_follow_each_other_and_stay_early(driver, recording):
    recording.run(lambda: [nothing(driver, early=True)() for _ in range(3)])
    recording.run(nothing(driver, early=True))
    graph = graph_of(recording)
    assert edges(driver, graph) == [[], [EARLY], [EARLY], [EARLY]]
    assert nodes.count([graph]) == (4, 3)


def test_conditions_are_armed_by_a_kernel_that_waits_for_all_before_it(driver, recording):
    """A kernel in front, the node, and what follows: no programmatic edge at a seam."""
    early = nothing(driver, early=True)

    def body(r):
        r.run(lambda: [early(), early()])

    recording.run(early)
    recording.loop(number(1), body)
    recording.run(early)
    graph = graph_of(recording)
    assert kinds(driver, graph) == [KERNEL, KERNEL, CONDITIONAL, KERNEL]
    assert edges(driver, graph) == [[], [0], [0], [0]]
    _, inner = recording._site.graphs
    assert kinds(driver, inner) == [KERNEL, KERNEL, KERNEL]
    assert edges(driver, inner) == [[], [EARLY], [0]]
    assert nodes.count(recording._site.graphs) == (6, 1)


def test_edge_data_is_carried_from_piece_to_piece_but_not_to_an_arm(driver, recording):
    """As after a wait for a programmatic event: the data is the next node's, whatever it is."""

    def work():
        driver.launch(lambda: None)
        driver.tail = dict.fromkeys(driver.tail, EARLY)

    recording.run(work)
    recording.run(work)
    recording.loop(number(0), lambda r: r.run(work))
    assert edges(driver, graph_of(recording)) == [[], [EARLY], [0], [0]]
    assert edges(driver, recording._site.graphs[1]) == [[], [0]]


def test_every_body_of_a_switch_is_a_graph_that_begins_anew(driver, recording):
    early = nothing(driver, early=True)
    bodies = [lambda r, i=i: r.run(lambda: [early() for _ in range(i + 1)]) for i in range(BODIES)]
    recording.run(early)
    recording.switch(number(0), bodies, number(0))
    top, *inner = recording._site.graphs
    assert kinds(driver, top) == [KERNEL, KERNEL, CONDITIONAL]
    assert [len(driver.graphs[int(g)]) for g in inner] == list(range(1, BODIES + 1))
    assert all(edges(driver, g)[0] == [] for g in inner)


def test_a_body_that_describes_nothing_has_a_node(driver, recording):
    recording.switch(number(1), [lambda r: r.run(nothing(driver)), lambda r: None], number(0))
    assert kinds(driver, recording._site.graphs[2]) == [EMPTY]
    launch(recording)


def test_bodies_can_begin_with_an_empty_node(driver):
    recording = Recording(Site(CPU, STREAM, Arms(driver), empty_first=True), nodes.new_graph())
    recording.switch(number(0), [lambda r: r.run(nothing(driver))] * 2, number(0))
    assert [kinds(driver, g) for g in recording._site.graphs[1:]] == [[EMPTY, KERNEL]] * 2


def test_an_arm_of_the_caller_s_takes_the_kernel_s_place(driver, recording):
    index, going, damaged, seen = number(0), number(2), number(0), []

    def choose(handle):
        def work():
            index.add_(1)
            arm_switch(driver, handle, index, 3, damaged)

        driver.launch(work)

    def count(handle):
        def work():
            going.sub_(1)
            driver.set_handle(handle, int(going))

        driver.launch(work)

    def see(i):
        return lambda r: r.run(partial(driver.launch, lambda: seen.append(i)))

    def body(r):
        r.switch(index, [see(i) for i in range(3)], damaged, arm=choose)

    recording.loop(going, body, arm=count)
    assert [len(driver.graphs[int(g)]) for g in recording._site.graphs] == [2, 3, 1, 1, 1]
    launch(recording)
    assert seen == [1, 2]
    assert damaged == 0


def test_work_that_fails_leaves_the_stream_out_of_capture(driver, recording):
    def fail():
        driver.launch(lambda: None)
        raise ValueError("its own")

    with pytest.raises(ValueError, match="its own"):
        recording.run(fail)
    assert driver.capture is None

    def interrupted():
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        recording.run(interrupted)
    assert driver.capture is None


def test_a_description_that_fails_in_a_body_leaves_the_stream_out_of_capture(driver, recording):
    def body(r):
        r.run(nothing(driver))
        raise ValueError("its own")

    with pytest.raises(ValueError, match="its own"):
        recording.loop(number(1), body)
    assert driver.capture is None


def test_work_that_cannot_be_captured_is_refused_by_name(driver, recording):
    def waits():
        driver.launch(lambda: None)
        driver.break_capture()

    said = (
        r"^Piece 1 of the body of a loop in the graph \(.*waits\) cannot be captured: CUDA error: "
        r"operation not permitted when stream is capturing\.$"
    )
    with pytest.raises(GraphError, match=said):
        recording.loop(number(1), lambda r: r.run(waits))
    assert driver.capture is None


def test_a_capture_that_breaks_in_silence_is_refused(driver, recording):
    def silent():
        driver.broken = True

    with pytest.raises(GraphError, match=r"silent\) cannot be captured: a call broke it"):
        recording.run(silent)
    assert driver.capture is None


def test_work_that_allocates_is_refused_by_name(driver, recording, monkeypatch):
    counts = iter([4, 4, 4, 6])
    monkeypatch.setattr(allocations, "allocated", lambda device: next(counts))

    def allocates():
        driver.launch(lambda: None)

    recording.run(nothing(driver))
    with pytest.raises(GraphError, match=r"^Piece 2 of the graph \(.*allocates\) .* cpu 2 times"):
        recording.run(allocates)
    assert driver.capture is None


def test_the_recorder_around_a_body_is_refused_in_it(driver, recording):
    going = number(1)
    for wrong in (
        lambda r: recording.run(nothing(driver)),
        lambda r: recording.switch(going, [lambda r: None], going),
        lambda r: recording.loop(going, lambda r: None),
    ):
        with pytest.raises(GraphError, match="recorder of the graph was used when"):
            recording.loop(going, wrong)
    recording.run(nothing(driver))  # it is its turn again


def test_a_recorder_is_refused_after_its_description(driver, recording):
    kept = []
    recording.take(lambda r: r.loop(number(1), kept.append))
    (inner,) = kept
    for late in (inner, recording):
        with pytest.raises(GraphError, match="not its turn"):
            late.run(nothing(driver))


def test_a_condition_elsewhere_is_refused(driver, recording):
    there = number(0).to("meta")
    with pytest.raises(GraphError, match="on meta; expected cpu"):
        recording.loop(there, lambda r: None)
    with pytest.raises(GraphError, match="on meta; expected cpu"):
        recording.switch(there, [lambda r: None], there)


def test_the_driver_s_name_of_an_error_is_said(driver, recording, monkeypatch):
    monkeypatch.setattr(driver, "handles", {})
    with pytest.raises(GraphError, match=r"Launch of a graph is refused.*CUDA_ERROR_INVALID_VALUE"):
        nodes.launch(nodes.driver.CUgraphExec(1), STREAM)
    nodes.new_handle(graph_of(recording))
    with pytest.raises(GraphError, match="Instantiation of a graph is refused"):
        nodes.instantiate(graph_of(recording), STREAM)


def test_handles_keep_their_64_bits(driver, recording):
    assert nodes.new_handle(graph_of(recording)) >= 2**40


@pytest.fixture
def as_on_a_gpu(driver, monkeypatch):
    """`record`'s own part for graphs, on a stream that is made up."""
    from hybridspec.runtime.graph import arming

    stream = SimpleNamespace(cuda_stream=STREAM, device=CPU, synchronize=lambda: None)
    free = iter([9000, 9000, 7000])
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: stream)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (next(free), 10000))
    monkeypatch.setattr(arming.Arming, "on", lambda device: Arms(driver))
    return partial(executable._as_graph, device=CPU, empty_first=False)


def test_an_executable_can_be_launched_again_and_knows_its_figures(driver, as_on_a_gpu):
    program = Rounds("cpu", driver.launch)
    made = as_on_a_gpu(program.all)
    assert made.figures.memory == 2000
    # two mixes, two arms of the loop, choose, one arm of the switch, count; 25 mixes in its bodies
    assert made.figures.kernels == 7 + BODIES + BODIES // 2
    assert made.figures.early == 0
    assert made.figures.capture_ms > 0
    assert made.figures.instantiate_ms > 0
    lawful = Rounds("cpu")
    for call in (made.launch, made.replay):
        for p in (program, lawful):
            p.set(5)
        lawful.all(Eager())
        call()
        assert program.values() == lawful.values()


def test_what_was_instantiated_goes_with_the_executable(driver, as_on_a_gpu):
    made = as_on_a_gpu(lambda r: r.run(nothing(driver)))
    assert len(driver.launchable) == 1
    del made
    gc.collect()
    assert not driver.launchable


def test_what_kernels_read_lives_as_long_as_the_executable(driver, as_on_a_gpu):
    """Their arguments are addresses: whoever made work may be gone, its tensors may not."""
    work = Rounds("cpu", driver.launch)
    there = weakref.ref(work)
    made = as_on_a_gpu(partial(take_twice, [work]))
    del work
    driver.nodes.clear()  # what is made up keeps functions, the real one addresses
    gc.collect()
    assert there() is not None
    del made
    gc.collect()
    assert there() is None


def take_twice(owned, r):
    """Describe work that nobody else holds then."""
    work = owned.pop()
    r.run(work.choose)
    r.run(work.choose)


@pytest.mark.parametrize(("version", "reason"), [
    (12070, "the driver serves CUDA 12.7, and graphs can switch from 12.8 on"),
    (12080, None), (13000, None),
])  # fmt: skip
def test_graphs_switch_from_cuda_12_8_on(driver, version, reason):
    driver.version = version
    assert executable.unable() == reason


def test_without_cuda_bindings_the_host_leads(monkeypatch):
    monkeypatch.setattr(executable, "installed", lambda package: False)
    assert executable.unable() == "cuda-bindings is not installed"
