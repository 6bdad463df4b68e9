"""The tree of kept states: what is found, what goes when memory is short."""

from __future__ import annotations

import pytest
import torch

from hybridspec.runtime.prefix.parts import Point, Rows
from hybridspec.runtime.prefix.store import Node, Store

ROW, STATE = 16, 400  # bytes: a token's rows with the token itself, a state


def add(store: Store, parent: Node, tokens, *, exact=True, drafted=True) -> Node | None:
    n = len(tokens)
    empty = torch.zeros(1, 1, n, 1)
    copies = (
        lambda: Rows(empty.clone(), empty.clone()),
        lambda: Point(torch.zeros(90), torch.zeros(10)),
    )
    return store.add(parent, tokens, (8 * n, STATE), copies, exact=exact, drafted=drafted)


def grown(store: Store, *segments) -> list[Node]:
    nodes = [store.root]
    for segment in segments:
        nodes.append(add(store, nodes[-1], segment))
    return nodes[1:]


def test_the_longest_beginning_is_found():
    store = Store(10_000)
    one, two = grown(store, [1, 2], [3, 4])
    other = add(store, one, [5])
    at = {2, 3, 4}
    assert store.find([1, 2, 3, 4, 9], at, drafted=True) is two
    assert store.find([1, 2, 5, 4], at, drafted=True) is other
    assert store.find([1, 2, 3, 9], at, drafted=True) is one
    assert store.find([1, 9, 3, 4], at, drafted=True) is None
    assert store.find([], at, drafted=True) is None


def test_a_token_is_left_to_run():
    store = Store(10_000)
    one, _ = grown(store, [1, 2], [3, 4])
    assert store.find([1, 2, 3, 4], {2, 4}, drafted=True) is one
    assert store.find([1, 2], {2}, drafted=True) is None


def test_an_exact_state_is_taken_at_a_cut_alone():
    store = Store(10_000)
    one, two = grown(store, [1, 2], [3, 4])
    near = add(store, two, [5], exact=False)
    behind = add(store, near, [6])
    prompt = [1, 2, 3, 4, 5, 6, 7]
    assert behind.exact  # as it was said: who calls knows its parent
    assert store.find(prompt, {2}, drafted=True) is one
    assert store.find(prompt[:6], {2, 4, 5}, drafted=True) is two
    assert store.find(prompt[:6], None, drafted=True) is near


def test_who_drafts_needs_the_drafters_part():
    store = Store(10_000)
    plain = add(store, store.root, [1, 2], drafted=False)
    assert store.find([1, 2, 3], {2}, drafted=True) is None
    assert store.find([1, 2, 3], {2}, drafted=False) is plain
    drafted = add(store, store.root, [1, 2])
    assert drafted is not plain
    assert store.find([1, 2, 3], {2}, drafted=True) is drafted


def test_what_is_there_is_not_kept_twice():
    store = Store(10_000)
    one = add(store, store.root, [1, 2])
    held = store.nbytes
    assert held == 2 * ROW + STATE
    assert add(store, store.root, [1, 2]) is one
    assert store.nbytes == held


def test_the_oldest_goes_first_and_a_use_makes_young():
    store = Store(3 * (ROW + STATE))
    first, second, _ = (add(store, store.root, [token]) for token in (1, 2, 3))
    assert store.find([1, 0], {1}, drafted=True) is first
    add(store, store.root, [4])
    assert second not in store.nodes()
    assert {node.tokens[0] for node in store.nodes()} == {1, 3, 4}


def test_a_node_that_others_go_on_from_loses_its_state_alone():
    store = Store(3 * ROW + 2 * STATE)
    one, two, three = grown(store, [1], [2], [3])
    assert (one.point, one.rows is None) == (None, False)
    assert store.find([1, 2, 3, 4], {1, 2, 3}, drafted=True) is three
    assert store.find([1, 9], {1}, drafted=True) is None
    again = add(store, store.root, [1])  # its state comes back, and two's goes
    assert (again, two.point) == (one, None)
    assert one.point is not None
    assert store.nbytes == store._sum == store.limit


def test_rows_go_when_nothing_is_behind_them():
    store = Store(2 * (ROW + STATE))
    grown(store, [1], [2])
    _, last = grown(store, [3], [4])
    assert [node.tokens.tolist() for node in last.path()] == [[3], [4]]
    assert {node.tokens[0] for node in store.nodes()} == {3, 4}


def test_no_more_is_held_than_allowed():
    store = Store(5 * STATE)
    for base in range(20):
        node = store.root
        for step in range(base % 7 + 1):
            made = add(store, node, [base, step] * (1 + step))
            assert store.nbytes == store._sum <= store.limit
            if made is None:
                break
            node = made


def test_what_can_never_fit_drops_nothing():
    store = Store(2 * STATE)
    one = add(store, store.root, [1])
    held = store.nbytes
    assert add(store, store.root, [2] * 100) is None
    assert add(store, one, [2] * 100) is None
    assert (store.nbytes, one.point is None) == (held, False)


def test_a_copy_that_fails_leaves_no_trace():
    store = Store(10_000)

    def fails():
        raise RuntimeError("no memory")

    rows = Rows(torch.zeros(1, 1, 1, 1), torch.zeros(1, 1, 1, 1))
    with pytest.raises(RuntimeError, match="no memory"):
        store.add(store.root, [1], (8, STATE), (lambda: rows, fails), exact=True, drafted=True)
    assert store.nbytes == 0
    assert store.find([1, 2], {1}, drafted=True) is None
