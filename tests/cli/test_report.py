from __future__ import annotations

import pytest

from hybridspec import __version__
from hybridspec.cli.report import document, statistics_line
from hybridspec.core import Generation, GenerationStats, RoundStats


def generated(command, pair, *flags: str) -> dict:
    return command("generate", "x", "--raw", "--json", *flags, *pair.options).json


def test_document_of_accepted_blocks(command, pair):
    """1 + 13 rounds of 5 + a last one of 4, for which the limit left no more."""
    got = generated(command, pair("flat"), "-n", "70", "--system", "static:5")
    stats = got["stats"]
    assert got["token_ids"] == [0] * 70
    assert got["finish_reason"] == "length"
    assert stats["rounds"] == 14
    assert stats["acceptance_histogram"] == [0, 0, 0, 1, 13] + [0] * 11
    assert stats["verification_length_histogram"] == [0, 0, 0, 0, 1, 13] + [0] * 11
    assert stats["accepted_draft_tokens"] == stats["verified_draft_tokens"] == 3 + 13 * 4
    assert stats["mean_acceptance_length"] == pytest.approx(69 / 14)
    assert stats["decode_tokens_per_second"] == pytest.approx(69 / stats["decode_seconds"])
    assert stats["prefill_seconds"] > 0
    assert stats["seed"] is None


def test_counting_before_the_trim_at_a_stop(command, pair):
    """The stop string ends inside the second round, whose drafts were accepted all the same."""
    got = generated(command, pair("flat"), "--system", "static:5", "--stop", "!" * 8)
    stats = got["stats"]
    assert got["text"] == ""
    assert len(got["token_ids"]) == 8
    assert stats["rounds"] == 2
    assert stats["acceptance_histogram"][4] == 2
    assert stats["mean_acceptance_length"] == 5.0


@pytest.mark.parametrize("head", ["random", "cycle", "flat"])
@pytest.mark.parametrize("system", ["ar", "static:3", "dflash"])
def test_the_figures_agree_with_each_other(command, pair, head, system):
    got = generated(command, pair(head), "-n", "50", "--system", system, "--ignore-eos")
    stats, usage = got["stats"], got["usage"]
    accepted, lengths = stats["acceptance_histogram"], stats["verification_length_histogram"]
    assert sum(accepted) == sum(lengths) == stats["rounds"]
    assert sum(a * n for a, n in enumerate(accepted)) == stats["accepted_draft_tokens"]
    assert sum((w - 1) * n for w, n in enumerate(lengths)) == stats["verified_draft_tokens"]
    # Nothing is trimmed at a limit that the lengths respect.
    assert 1 + sum((a + 1) * n for a, n in enumerate(accepted)) == usage["completion_tokens"] == 50
    assert usage["total_tokens"] == usage["prompt_tokens"] + 50


def test_names_and_version(command, pair):
    made = pair("flat")
    got = generated(command, made, "-n", "1")
    assert (got["model"], got["draft"]) == (str(made.target), str(made.draft))
    assert got["version"] == __version__


def test_a_model_alone_decodes_plainly(command, pair):
    options = ("generate", "x", "-n", "4", "--json", "--model", str(pair("flat").target))
    got = command(*options).json
    assert got["draft"] is None
    assert got["stats"]["system"] == "ar"
    assert got["stats"]["acceptance_histogram"] == [3]
    assert got["stats"]["verification_length_histogram"] == [0, 3]


def test_without_rounds_there_is_nothing_to_average():
    answer = Generation("y", (7,), "stop", 3, "static:5", GenerationStats(prefill_seconds=0.5))
    stats = document(answer, block_size=16, model="a", draft="b")["stats"]
    assert stats["mean_acceptance_length"] is None
    assert stats["decode_tokens_per_second"] is None
    assert stats["acceptance_histogram"] == [0] * 16


def test_statistics_line():
    rounds = (RoundStats(5, 3, 4), RoundStats(5, 0, 1))
    stats = GenerationStats(rounds, prefill_seconds=1.0, decode_seconds=0.5, seed=9)
    answer = Generation("text", (1, 2, 3, 4, 5, 6), "stop", 3, "static:5", stats)
    assert statistics_line(answer) == (
        "6 tokens, 10.0 tok/s, 2 rounds, mean acceptance length 2.50, system static:5, "
        "finish reason stop, seed 9"
    )
