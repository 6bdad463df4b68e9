from __future__ import annotations

from bench.synthetic import synthetic_results
from hybridspec.bench.markdown import markdown, table
from hybridspec.bench.tables import Table, main_table, tables


def test_every_table_is_there_cell_by_cell(tmp_path):
    results = synthetic_results(tmp_path)
    said = markdown(results)
    for found in tables(results, wide=True):
        assert f"### {found.title}\n" in said
        for row in (found.header, *found.rows):
            assert f"| {' | '.join(row)} |\n" in said
    assert said.startswith("A processor, 4 cores")
    rule = "|---|" + "---:|" * (len(main_table(results).header) - 1)
    assert rule in said.replace(" ", "")


def test_names_are_not_markup():
    found = table(Table("a*b", ("system", "x|y"), (("<b>", "_z_"),)))
    assert "### a\\*b" in found
    assert "| system | x\\|y |" in found
    assert "| \\<b> | \\_z\\_ |" in found
