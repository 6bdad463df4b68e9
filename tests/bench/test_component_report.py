from __future__ import annotations

from bench.paper_table import document
from hybridspec.bench.component_report import report, table


def test_the_table_is_the_papers():
    found = table(document())
    assert "per-token" in found.title
    (row,) = [row for row in found.rows if row[0] == "8"]
    assert row == (
        *("8", "1", "12.657", "3.096", "7.826", "0.698", "1.037"),
        *("12.657-12.657", "1.817", "7.0", "800.0"),
    )


def test_growth_fits_and_overhead_are_sentences():
    text = report(document())
    assert (
        "From w = 4 to 16: target +71.3%, GDN +74.1%, MoE +91.1%, attention +5.7%, other +4.5%, "
        "drafter +3.4%.\n" in text
    )
    assert (
        "Fits over w = 4, 5, 6, 7, 8, 10, 12, 15, 16: GDN 1.89 + 0.154 w ms (R2 0.999); "
        "MoE 2.66 w^0.499 ms (R2 of logs 0.976).\n" in text
    )
    assert "correlation 1.00, 2.0 pairs an expert (2 drafts, each position's mean" in text
    assert "lengthens a call by +1.0%" in text


def test_what_is_missing_is_left_out_or_a_dash():
    found = document()
    found["growth"], found["fits"], found["layer0_proxy"] = None, [], None
    found["lengths"][0] |= {"drafter_ms": None, "target_to_drafter": None}
    text = report(found)
    assert "From w" not in text
    assert "Fits" not in text
    assert "proxy" not in text
    assert table(found).rows[0][-3:-1] == ("-", "-")


def test_the_correlation_of_times_with_pairs_is_told():
    found = document()
    found["latency_of_pairs"] = {"w": 16, "calls": 80, "correlation": 0.999}
    assert "Time of a call at w = 16 against its distinct pairs: correlation 0.999" in report(found)


def test_a_falling_line_has_a_minus():
    found = document()
    found["fits"][0]["gdn"] |= {"a": 2.0, "b": -0.25}
    found["fits"][0]["moe"] = None
    assert "GDN 2 - 0.25 w ms (R2 0.999).\n" in report(found)
