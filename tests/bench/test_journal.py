from __future__ import annotations

import json

import pytest

from bench.bench_records import record
from hybridspec.bench.journal import RECORDS, Journal, holds_startup
from hybridspec.errors import RequestError

SETUP = {"systems": ["ar", "dflash"], "max_tokens": 64, "model": "pair"}


RECORD = json.dumps({"kind": "record", **record("a").to_json()})


def filled(out):
    journal = Journal(out, SETUP)
    journal.add_run({"date": "today"})
    journal.add(record("a"))
    journal.add(record("b", "dflash"))
    return journal


def test_a_journal_comes_back_as_it_was(tmp_path):
    before = filled(tmp_path / "deep" / "out")
    after = Journal(tmp_path / "deep" / "out", SETUP)
    assert after.records == before.records
    assert after.runs == [{"date": "today"}]
    assert after.startup is None
    after.add(record("c"))
    assert len(Journal(tmp_path / "deep" / "out", SETUP).records) == 3


def test_startup_is_kept(tmp_path):
    assert not holds_startup(tmp_path)
    journal = filled(tmp_path)
    assert not holds_startup(tmp_path)
    journal.add_startup({"first_seconds": 2.0})
    assert holds_startup(tmp_path)
    assert Journal(tmp_path, SETUP).startup == {"first_seconds": 2.0}


def test_a_line_cut_off_by_a_kill_is_dropped_at_any_byte(tmp_path):
    whole = filled(tmp_path).path.read_bytes()
    last = whole.rstrip(b"\n").rfind(b"\n") + 1
    for cut in range(last, len(whole)):
        (tmp_path / RECORDS).write_bytes(whole[:cut])
        journal = Journal(tmp_path, SETUP)
        assert [k.prompt for k in journal.records] == ["a"]
        journal.add(record("b", "dflash"))
        assert journal.path.read_bytes() == whole


def test_a_journal_cut_off_in_its_first_line_begins_anew(tmp_path):
    path = filled(tmp_path).path
    path.write_bytes(path.read_bytes()[:20])
    assert Journal(tmp_path, SETUP).records == {}
    assert json.loads(path.read_text())["kind"] == "setup"


def test_another_setup_is_refused_with_both_sides(tmp_path):
    filled(tmp_path)
    with pytest.raises(RequestError) as refused:
        Journal(tmp_path, {**SETUP, "max_tokens": 128, "gpu": "H200"})
    assert "max_tokens 64 there, 128 here" in str(refused.value)
    assert "gpu null there, H200 here" in str(refused.value)
    assert "systems" not in str(refused.value)


def test_a_setup_without_results_gives_way(tmp_path):
    """A run that was refused while loading leaves nothing that could be mixed."""
    Journal(tmp_path, SETUP).add_startup({"first_seconds": 2.0})
    assert Journal(tmp_path, SETUP).startup == {"first_seconds": 2.0}
    journal = Journal(tmp_path, {**SETUP, "model": "other"})
    assert journal.startup is None
    journal.add(record())
    assert len(Journal(tmp_path, {**SETUP, "model": "other"}).records) == 1


def test_force_discards_another_setup(tmp_path):
    filled(tmp_path)
    assert Journal(tmp_path, {**SETUP, "max_tokens": 128}, force=True).records == {}
    assert Journal(tmp_path, {**SETUP, "max_tokens": 128}).records == {}


@pytest.mark.parametrize(
    ("line", "text"),
    [
        (1, "not json"),
        (1, '{"kind": "run"}'),  # no set-up first
        (3, '{"kind": "record", "prompt": "a"}'),
        (3, '{"kind": "setup"}'),  # a second one
        (2, '{"kind": "joke"}'),
        (2, "[]"),
        (2, "5"),
        (2, "[" * 100_000),
        (
            3,
            RECORD.replace("1.0", "Infinity").replace(
                '"prompt_tokens": 10', '"prompt_tokens": 1e999'
            ),
        ),
        (3, RECORD.replace("[1, 0, 1, 0.5,", '[1, 0, "x", 0.5,')),
        (3, RECORD.replace("[1, 0, 1, 0.5, 0, 0, 0]", "[1, 0, 1, 0.5]")),
    ],
)
def test_damage_is_refused_by_line(tmp_path, line, text):
    path = filled(tmp_path).path
    lines = path.read_text().splitlines()
    lines[line - 1] = text
    path.write_text("\n".join(lines) + "\n")
    with pytest.raises(RequestError, match=rf"line {line}, is damaged.*--force"):
        Journal(tmp_path, SETUP)


def test_a_folder_that_cannot_be_used_is_refused(tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(RequestError, match=r"cannot be written.*--out"):
        Journal(tmp_path / "file", SETUP)


def test_other_threads_are_refused_with_the_way_to_go_on(tmp_path):
    Journal(tmp_path, {**SETUP, "threads": 2}).add(record())
    said = r"threads 2 there, 1 here\. For the threads there give --threads 2\. Choose"
    with pytest.raises(RequestError, match=said):
        Journal(tmp_path, {**SETUP, "threads": 1})


def test_a_name_that_is_no_text_goes_through_the_file(tmp_path):
    """A file's name may hold any bytes, which Python gives as lone surrogates."""
    setup = {**SETUP, "prompts": "\udcff.jsonl"}
    Journal(tmp_path, setup).add(record())
    assert len(Journal(tmp_path, setup).records) == 1
