"""Memory as in the paper's appendix D.4."""

from __future__ import annotations

from hybridspec.bench.scripted.report.files import Document
from hybridspec.bench.tables import Table

MB, GB = 1e6, 1e9


def buffers(ledger: Document | None) -> Table | None:
    """Of each verifier."""
    if ledger is None:
        return None
    rows = tuple(
        (verifier, *(f"{size / MB:.2f}" for size in parts.values()))
        for verifier, parts in ledger["verification"].items()
    )
    header = ("verifier", "convolution columns", "factors", "states a token", "ring", "sum")
    note = (
        "What a verification writes ahead of its commit, one sequence, 16 inputs. Columns and "
        "factors are there whatever the verifier. The paper's: 0.94 GiB of states a token, 0.01 GB "
        "of factors."
    )
    return Table("Buffers of a verification, MB", header, rows, note)


def cacheable(ledger: Document | None) -> Table | None:
    """Tokens that fit with and without states a token."""
    if ledger is None:
        return None
    rows = tuple(
        (
            row["memory"], f"{row['room'] / GB:.2f}", f"{row['exact']:,}", f"{row['per-token']:,}",
            f"{100 * (row['exact'] / row['per-token'] - 1):+.1f}%" if row["per-token"] else "-",
        )
        for row in ledger["cacheable"]
    )  # fmt: skip
    lost = ledger["verification"]["per-token"]["states"] / ledger["per_token"]
    note = (
        f"Beside {ledger['weights'] / GB:.2f} GB of weights; nothing is set aside for graphs and "
        f"work. A token of both caches takes {ledger['per_token'] / 1e3:.1f} kB (sliding layers of "
        f"the drafter keep a window), so states a token cost the room of {lost:,.0f} tokens a "
        "sequence. The paper's pool: 112,687 tokens of 44 KiB and 1.88 GiB of states, there for "
        "both caches without weights."
    )
    header = ("memory", "for states and caches, GB", "tokens", "with states a token", "more")
    return Table("Tokens that fit (appendix D.4)", header, rows, note)
