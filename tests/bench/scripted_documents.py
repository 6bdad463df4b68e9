"""Made-up documents of scripted runs: only what reports read."""

from __future__ import annotations

from typing import Any

from hybridspec.bench.scripted.verb import SCHEMA

SYSTEMS = {"ar": (1.0, 2.0, 1.0), "dflash": (5.0, 6.0, 16.0), "hybridspec": (4.5, 4.0, 6.0)}
CATEGORIES = {"coding": 1.2, "math": 0.8}  # acceptance by the mean's


def row(acceptance: float, ms: float, w: float) -> dict[str, Any]:
    rate = 1e3 * acceptance / ms
    return {
        "acceptance_length": acceptance, "ms_per_round": ms, "mean_w": w,
        "tokens_per_second": rate, "speedup": rate / 500, "tokens": 512,
        "rounds": round(512 / acceptance), "lengths": {str(int(w)): round(512 / acceptance)},
    }  # fmt: skip


def system(acceptance: float, ms: float, w: float) -> dict[str, Any]:
    """A system's rows; `ar` has one token a round everywhere."""
    spread = CATEGORIES if acceptance > 1 else dict.fromkeys(CATEGORIES, 1.0)
    each = {c: row(acceptance * part, ms, w) for c, part in spread.items()}
    return {"categories": each, "mean": row(acceptance, ms, w)}


def document(slower: float = 1.0, **more: tuple[float, float, float]) -> dict[str, Any]:
    """Of a run; slower: all times, by the usual ones. more: systems as (AL, ms, w)."""
    systems = {
        name: system(length, ms * slower, w) for name, (length, ms, w) in (SYSTEMS | more).items()
    }
    return {
        "schema": SCHEMA, "systems": systems, "machine": {"gpu": "G", "torch": "2.11"},
        "code": {"source_sha256": "s"}, "run": {"date": "2026-11-30", "commit": "0123456789ab"},
        "facts": {"distinct": {"1": 8.0, "4": 24.0, "8": 37.0, "16": 50.0}, "correlation": 0.4},
        "executor": "loop", "pair": "qwen3.6", "routing": "skewed", "context": 512, "answers": 2,
        "tokens": 512, "shape": {"hidden_size": 2048}, "correction": None, "memory": {},
        "profile": {"cost": {"exact/eager": {"plain_ms": 2.0, "ms": {
            str(w): 2.0 + w / 4 for w in range(2, 17)}}}, "draft_ms": [0.6] * 15},
    }  # fmt: skip


def beside(ar: float = 4.0, dflash16: float = 10.0, distinct: float | None = 50.0) -> Any:
    """A document with SGLang's times and a second run that is a tenth slower."""
    modes: dict[str, Any] = {
        "ar": {"startup_s": 60.0, "ms_per_round": ar},
        "dflash16": {"startup_s": None, "ms_per_round": dflash16},
    }
    if distinct is not None:
        modes["dflash16"]["distinct"] = distinct
    sglang = {"routing_skew": 1.0, "modes": modes}
    return document() | {"sglang": sglang, "again": document(1.1), "steps": {}, "failed": {}}
