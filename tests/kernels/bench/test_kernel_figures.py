"""The figures that were wanted: found in the records by their names, and judged."""

from __future__ import annotations

from hybridspec.kernels.bench import against, attention, figures, gdn, peers_moe, verifiers
from hybridspec.kernels.bench.figures import Figure
from hybridspec.kernels.bench.figures import figures as rows
from hybridspec.kernels.bench.setting import SHAPES


def found(*records) -> dict:
    return {row["figure"]: row for row in rows(records)}


def timed(name: str, us: float, **more) -> dict:
    return {"name": name, "config": "", "us": us} | more


def test_nothing_measured_is_neither_reached_nor_missed():
    for row in rows([]):
        assert (row["found"], row["met"]) == (None, None), row


def test_both_sweeps_count_and_the_first_configuration():
    name = "GDN verification and commit of 30 layers, exact, w = 2"
    first = timed("round exact: w = 2, m = 2", 130.0, us_again=140.0)
    row = found(first, timed("round exact: w = 2, m = 2", 90.0, config="other"))[name]
    assert (row["found"], row["target"], row["met"]) == (135, 140, True)
    assert not found(timed("round exact: w = 2, m = 2", 140.5))[name]["met"]


def test_products_are_judged_by_their_worst_number_of_rows():
    what = "lm_head: cuBLAS / ours, worst of (1, 2, 4, 8, 16) rows"
    records = [
        timed(f"product head, w = {w}{peer}", us)
        for w, mine, theirs in ((1, 9, 10), (2, 9, 10), (4, 10, 9.5), (8, 9, 10), (16, 9, 10))
        for peer, us in (("", mine), (", cuBLAS", theirs))
    ]
    row = found(*records)[what]
    assert (row["found"], row["met"]) == (0.95, False)
    assert found(*records[:-2])[what]["found"] is None


def test_peers_stand_against_ours_of_the_same_run():
    row = found(
        timed("stream block, U = 25", 40.0), timed("block, U = 25", 90.0),
        timed("SGLang 0.5.16 fused_moe, U = 25", 60.0),
    )  # fmt: skip
    assert row["SGLang 0.5.16 fused_moe, experts alone / MoE layer, U = 25"]["found"] == 1.5
    assert row["MoE layer with router and shared expert, U = 25"]["met"]


def test_shares_floors_and_windows():
    near, far = (
        timed(f"windowed layer of the drafter: both, context {n}, w = 16", us)
        for n, us in ((8192, 10.0), (32768, 12.0))
    )
    row = found(
        near, far, timed(f"{figures.ATTENTION[1]}, context 32768, w = 1", 20.0, of_copy=0.71),
        timed("head to tokens and scores", 200.0, bytes=int(200 * 4.28e6)),
        {"name": "memory of a verification: factors", "gb": 0.0121},
    )  # fmt: skip
    assert not row["windowed drafter layer, 32k / 8k context"]["met"]
    assert row["attention, 32k context, w = 1"]["met"]
    assert row["drafter head with argmax, confidence and entropy / floor of lm_head"]["found"] == 1
    assert not row["memory of a verification: factors, 30 layers"]["met"]


def test_a_figure_without_a_target_is_only_known():
    row = Figure("what", "us", None, lambda records: 3.0).row({})
    assert (row["found"], row["met"]) == (3, None)


def test_the_bench_times_what_the_figures_ask_for():
    """Lengths, contexts and numbers of experts that names are made of."""
    assert against.LENGTHS == figures.LENGTHS
    assert set(figures.LENGTHS) <= set(gdn.LENGTHS)
    assert set(figures.ROUNDS) <= set(verifiers.LENGTHS)
    assert peers_moe.DISTINCT == SHAPES["35b"].distinct == tuple(figures.EXPERTS)
    assert attention.LENGTHS == (1, 16)
