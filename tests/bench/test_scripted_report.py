"""Tables of scripted runs: figures by hand, the paper's own, and the committed page."""

from __future__ import annotations

import json
from pathlib import Path
from statistics import fmean

import pytest

from bench.scripted_documents import beside, document
from hybridspec.bench.scripted.against import figures
from hybridspec.bench.scripted.paper import CATEGORIES, PAIRS, TABLE_1, TABLE_3
from hybridspec.bench.scripted.report.__main__ import main
from hybridspec.bench.scripted.report.compared import (
    exact_slower,
    launchers,
    parts,
    verifiers,
)
from hybridspec.bench.scripted.report.document import about, report, tables
from hybridspec.bench.scripted.report.files import BEGIN, END, Measured, read
from hybridspec.bench.scripted.report.goals import goals
from hybridspec.bench.scripted.report.memory import buffers, cacheable
from hybridspec.bench.scripted.report.peer import peer_rounds, peer_tokens
from hybridspec.bench.scripted.report.systems import (
    components,
    main_table,
    numbered,
    rounds,
    settings,
)
from hybridspec.bench.scripted.report.times import lengths, passes
from hybridspec.bench.small import MEANINGLESS
from hybridspec.errors import RequestError

H200 = Path(__file__).parents[2] / "benchmarks" / "h200"


def rows(table) -> dict[str, tuple[str, ...]]:
    assert table is not None
    return {row[0]: row[1:] for row in table.rows}


def against() -> dict:
    made = beside()
    return made | {"against": figures(made)}


@pytest.mark.parametrize("which", [0, 1, 2])
def test_a_small_shape_s_figures_are_said_to_mean_nothing(which):
    """Wherever it was measured: a run, the kernels, the clocks."""
    others = {"records": [], "run": {"commit": None}}, {"parts": {}}
    made = [document(), *others]
    assert MEANINGLESS not in report(Measured([made[0]], *made[1:]))
    made[which] |= {"shape_is": "small"}
    assert report(Measured([made[0]], *made[1:])).startswith(MEANINGLESS)


@pytest.mark.parametrize("pair", PAIRS)
def test_the_paper_s_means_are_those_of_its_cells(pair):
    for system, row in TABLE_1[pair].items():
        assert [*row] == [*CATEGORIES, "mean"], system
        for i in (0, 1):
            # both are rounded to two digits
            assert fmean(row[c][i] for c in CATEGORIES) == pytest.approx(row["mean"][i], abs=0.0101)


def test_the_paper_s_gains_are_ratios_of_its_speeds():
    ours = TABLE_1["qwen3.6"]["hybridspec"]["mean"][1]
    for _, _, speedup, gain in TABLE_3.values():
        assert ours / speedup == pytest.approx(gain, abs=0.01)


def test_table_1_has_the_paper_s_rows_below_ours():
    found = main_table(document()).rows
    assert found[1] == ("dflash", "6.00 2.00x", "4.00 1.33x", "5.00 1.67x")
    # the mean of coding and math, 5.58 1.56 and 5.41 1.58, not of all seven
    assert found[2] == ("in the paper", "5.58 1.56x", "5.41 1.58x", "5.50 1.57x")
    assert [row[0] for row in found].count("in the paper") == 2


def test_rounds_say_speed_first():
    found = rows(rounds(document()))
    # 4.5 tokens in 4 ms, over 1 in 2 ms and 5 in 6 ms; a fifth less in math
    assert found["hybridspec"] == (
        "1125", "2.25", "1.80", "1.35", "4.50", "6.00", "4.000", "6.2, 16.3",
    )  # fmt: skip
    assert found["ar"][-1] == "-"


def test_table_3_is_made_of_the_variants_that_ran():
    found = document(length16=(5.0, 5.0, 16.0), **{"nominal-only": (4.5, 4.1, 6.0)})
    made = components(found)
    assert made is not None
    by_name = {row[1]: row for row in made.rows}
    assert [*by_name] == ["length16", "nominal-only", "dflash"]
    assert by_name["length16"][2:] == ("16.0", "5.00", "2.00", "1.12", "16", "4.77", "1.46", "1.25")
    assert by_name["dflash"][5] == "1.35"
    assert by_name["nominal-only"][5] == "-"  # routing is not as in text
    found["correction"] = {"value": 1.025, "low": 1.01, "high": 1.04, "answers": 4}
    gained = components(found)
    assert gained is not None
    assert gained.rows[1][5] == "1.025 (1.010-1.040)"
    del found["systems"]["hybridspec"]
    assert components(found) is None


@pytest.mark.parametrize(
    ("system", "found"),
    [
        ("static:4", ("static:4", "exact")), ("static:4:block", ("static:4", "block")),
        ("hybridspec", ("hybridspec", "exact")), ("length16", ("static:16", "exact")),
        ("hybridspec:7:per-token", ("hybridspec:7", "per-token")),
        ("dflash", ("static:16", "per-token")), ("evict+replayssm", ("evict", "replay")),
    ],
)  # fmt: skip
def test_a_name_is_lengths_and_a_verifier(system, found):
    assert parts(system) == found


def test_verifiers_stand_beside_each_other_from_several_runs():
    first = document(length16=(5.0, 6.3, 16.0), **{"static:4": (3.0, 4.0, 4.0)})
    second = document(**{"static:4:block": (3.0, 3.7, 4.0), "static:4:replay": (3.0, 5.0, 4.0)})
    made = verifiers([first, second])
    assert made is not None
    found = {row[0]: row[1:] for row in made.rows}
    assert found["static:16"] == ("loop", "6.300 (794)", "-", "6.000 (833)", "-", "+5.0%")
    assert found["static:4"][1:] == (
        "4.000 (750)", "3.700 (811)", "-", "5.000 (600)", "+8.1%",
    )  # fmt: skip
    assert exact_slower([first, second]) == pytest.approx(4 / 3.7 - 1)
    assert exact_slower([first]) == pytest.approx(0.05)
    assert exact_slower([document()]) is None
    assert verifiers([document()]) is None


def test_launchers_stand_beside_each_other_on_the_categories_of_all():
    first, host = document(), document(1.5) | {"executor": "host"}
    del host["systems"]["dflash"]
    assert launchers([first]) is None
    for body in host["systems"].values():
        del body["categories"]["math"]
    found = rows(launchers([first, host]))
    assert [*found] == ["ar", "hybridspec"]
    # coding alone: 5.4 tokens a round
    assert found["hybridspec"] == ("4.000 (1350)", "6.000 (900)", "loop")


def test_sglang_s_rounds_and_tokens():
    found = peer_rounds([against()])
    assert found is not None
    assert found.rows[0] == ("ar", "8.0", "8.0", "60", "4.000", "ar", "2.000", "2.00")
    assert found.rows[1] == ("dflash16", "50.0", "50.0", "-", "10.000", "dflash", "6.000", "1.67")
    assert "equal within 3%" in found.note
    assert "hybridspec 1.100" in found.note
    tokens = rows(peer_tokens([against()]))
    assert tokens["SGLang, tokens/s"] == ("250", "500")
    assert tokens["hybridspec"][1] == "2.25 (2.25)"
    assert peer_rounds([document()]) is None
    assert peer_tokens([document()]) is None


def test_sglang_stands_in_every_run_that_has_it():
    made = beside(distinct=40.0)
    runs = [made | {"against": figures(made)}, against()]
    runs[1]["systems"] = runs[1]["systems"] | {"later": runs[1]["systems"]["ar"]}
    found = peer_rounds(runs)
    assert found is not None
    told = [row[:2] for row in found.rows if row[0].startswith("dflash16")]
    assert told == [("dflash16", "40.0"), ("dflash16, run 2", "50.0")]
    tokens = peer_tokens(runs)
    assert tokens is not None
    assert tokens.header[1:] == ("ar", "dflash16", "ar, run 2", "dflash16, run 2")
    assert rows(tokens)["later"][0] == "-"
    what = "hybridspec's tokens/s over SGLang DFLASH-16's"
    assert rows(goals(runs))[what][0] == "2.250 (least 2.25, run 2)"
    led = [runs[0], runs[1] | {"executor": "host"}]  # not of the main run's launcher
    assert rows(goals(led))[what][0].endswith(", U not equal)")
    modes = runs[1]["against"]["modes"]
    del modes["dflash16"]["tokens_per_second"]
    assert rows(goals(runs))[what][0].endswith(", U not equal)")


def test_goals_say_whether_they_were_reached():
    found = rows(goals([against()]))
    assert found["ar step, ms"] == ("2.000", "at most 2", "2.2", "yes")
    assert found["SGLang's AR step over ours"][0] == "2.000 (ar)"
    tokens = found["hybridspec's tokens/s over SGLang DFLASH-16's"]
    assert tokens == ("2.250 (least 2.25)", "at least 2.3", "2", "the gate")
    assert found["SGLang's DFLASH-16 round over ours at w = 16"][0] == "1.667 (dflash)"
    assert found["SGLang's DFLASH-16 round over ours at w = 16"][-1] == "no"
    assert found["exact's time over the fastest other's, fixed lengths"][::3] == (
        "not measured", "",
    )  # fmt: skip


def test_goals_say_where_times_do_not_compare():
    made = beside(distinct=40.0)
    found = rows(goals([made | {"against": figures(made)}]))
    assert found["hybridspec's tokens/s over SGLang DFLASH-16's"][0].endswith(", U not equal)")


@pytest.mark.parametrize("change", [{"routing": "uniform"}, {"machine": {"cpu": "C"}}])
def test_goals_are_of_a_gpu_and_skewed_routing(change):
    assert goals([document() | change]) is None


def test_times_by_length():
    found = rows(lengths(document()))
    assert found["exact"][:3] == ("2.000", "2.500", "2.750")
    record = {"name": "target pass, w = 4", "us": 3000.0, "distinct": 24.0, "floor_us": 2400.0}
    kernels = {"run": {"commit": "0123456789ab"}, "records": [record, {"name": "gdn", "us": 1.0}]}
    assert rows(passes(kernels)) == {"4": ("24.0", "3.000", "2.400", "0.80")}
    assert passes(None) is None


def test_memory_is_a_run_s_own_or_that_beside_it():
    assert buffers(None) is None
    assert cacheable(None) is None
    parts_of = {"columns": 10, "factors": 20, "states": 2_000_000, "ring": 0, "sum": 2_000_030}
    row = {"memory": "80 GiB", "bytes": 9, "room": 5 * 10**9, "exact": 3000, "per-token": 2000}
    ledger = {
        "weights": 7 * 10**9, "per_token": 2000, "cacheable": [row],
        "verification": {"per-token": parts_of},
    }  # fmt: skip
    assert rows(buffers(ledger))["per-token"] == ("0.00", "0.00", "2.00", "0.00", "2.00")
    made = cacheable(ledger)
    assert rows(made)["80 GiB"] == ("5.00", "3,000", "2,000", "+50.0%")
    assert made is not None
    assert "the room of 1,000 tokens" in made.note
    own = document() | {"memory": {"ledger": ledger}}
    for measured in (Measured([own]), Measured([document()], memory=ledger)):
        assert [*tables(measured)][-1] == made


def test_a_report_says_on_what_it_was_measured():
    said = about(document())
    assert said.startswith("G, torch 2.11; commit 012345678, 2026-11-30. Launcher loop; 2 answers")
    assert "outside 0.45 to 0.55" in said
    assert len([*tables(Measured([against()]))]) == 7
    assert report(Measured([document()])).startswith(said)


def test_clocks_of_rounds_are_tables_and_a_goal():
    row = {
        "launcher": "loop", "system": "ar", "gap_us": 4.0, "gap_us_95": 5.0, "gap_us_most": 30.0,
        "round_us": 2000.0, "share": 0.002, "idle": 0.003, "ms": 2.0, "ms_stamped": 2.1,
    }  # fmt: skip
    others = [row | {"system": "dflash", "share": 0.005}, row | {"launcher": "host", "share": 0.3}]
    clocks = {"parts": {"gaps": {"stamp_us": 1.4, "tick_ns": 32, "rows": [row, *others]}}}
    made = [*tables(Measured([document()], clocks=clocks))]
    assert "Gaps between rounds" in [table.title for table in made]
    goal = "gaps between rounds, part of a round"
    assert rows(made[0])[goal] == ("0.005 (dflash)", "at most 0.02", "-", "yes")
    assert rows(goals([document()]))[goal][0] == "not measured"


def written(folder: Path, **documents: dict) -> Path:
    folder.mkdir(exist_ok=True)
    for name, body in documents.items():
        (folder / f"{name.replace('_', '-')}.json").write_text(json.dumps(body))
    return folder


def test_a_folder_s_other_runs_are_compared_and_a_page_is_filled_between_its_marks(tmp_path):
    folder = written(tmp_path / "r", scripted_host=document(2.0) | {"executor": "host"},
                     scripted=document(), other={"schema": "x"})  # fmt: skip
    page = tmp_path / "page.md"
    page.write_text(f"before\n{BEGIN}\nold\n{END}\nafter\n")
    for _ in range(2):
        assert main([str(folder), "--out", str(page)]) == 0
    found = page.read_text()
    assert found.startswith(f"before\n{BEGIN}\nG, ")
    assert found.endswith(f"\n{END}\nafter\n")
    assert "Launchers against each other" in found
    assert "old" not in found
    page.write_text("no marks\n")
    assert main([str(folder / "scripted.json"), "--out", str(page)]) == 0
    assert page.read_text() == report(Measured([document()])) + "\n"


def test_what_is_no_scripted_run_is_refused_with_a_sentence(tmp_path, capsys):
    folder = written(tmp_path / "r", speed={"schema": "hybridspec.bench.speed/1"})
    cases = {
        str(folder): "holds no scripted.json", str(folder / "speed.json"): "expected 'hybridspec",
        str(tmp_path / "none.json"): "cannot be read: No such file",
    }  # fmt: skip
    for path, said in cases.items():
        assert main([path]) == 2
        assert said in capsys.readouterr().err
    lacking = {k: v for k, v in document().items() if k != "facts"}
    assert main([str(written(tmp_path / "l", scripted=lacking))]) == 2
    assert "KeyError: 'facts'" in capsys.readouterr().err
    longer = written(tmp_path / "u", scripted=document(),
                     scripted_b=document() | {"context": 99})  # fmt: skip
    with pytest.raises(RequestError, match="another context"):
        read([longer])
    elsewhere = written(tmp_path / "m", scripted=document(),
                        scripted_b=document() | {"machine": {"gpu": "other"}})  # fmt: skip
    with pytest.raises(RequestError, match="it is of other, that of "):
        read([elsewhere])
    deep = written(tmp_path / "d", scripted=document())
    (deep / "kernels.json").write_text("[" * 100_000)
    with pytest.raises(RequestError, match="it holds no JSON"):
        read([deep])


def test_a_page_with_one_mark_or_of_no_text_is_left_as_it_is(tmp_path, capsys):
    folder = written(tmp_path / "r", scripted=document())
    for held in (f"notes {BEGIN} more".encode(), f"notes {END}".encode(), b"\xff\xfe"):
        page = tmp_path / "page.md"
        page.write_bytes(held)
        assert main([str(folder), "--out", str(page)]) == 2
        assert page.read_bytes() == held
        assert "The page lacks" in (said := capsys.readouterr().err) or "no text in UTF-8" in said


def test_runs_of_another_routing_or_acceptance_have_a_table_of_their_own(tmp_path):
    uniform = document(3.0) | {"routing": "uniform"}
    uniform["systems"] = {name: uniform["systems"][name] for name in ("ar", "hybridspec")}
    folder = written(tmp_path / "r", scripted=document(), scripted_uniform=uniform,
                     scripted_host=document(2.0) | {"executor": "host"})  # fmt: skip
    measured = read([folder])
    assert [run["routing"] for run in measured.runs] == ["skewed", "skewed"]
    assert measured.others == [uniform]
    found = settings(measured.runs, measured.others)
    assert found is not None
    assert [row[0] for row in found.rows] == ["1", "1", "3", "3"]
    assert [row[2] for row in found.rows] == ["skewed", "skewed", "uniform", "uniform"]
    assert {row[3] for row in found.rows} == {"ar", "hybridspec"}
    listed = numbered([*measured.runs, *measured.others])
    assert listed is not None
    assert [row[3] for row in listed.rows] == [
        document()["executor"], "host", document()["executor"],
    ]  # fmt: skip
    assert all(name in report(measured) for name in ("### Runs", "Other acceptance and routing"))
    assert settings([document()], ()) is None
    assert numbered([document()]) is None


def test_the_committed_tables_are_those_of_the_committed_figures():
    page = (H200 / "README.md").read_text(encoding="utf-8")
    assert page.partition(BEGIN + "\n")[2].partition("\n" + END)[0] == report(read([H200])), (
        "run `python -m hybridspec.bench.scripted.report benchmarks/h200 --out "
        "benchmarks/h200/README.md`"
    )
