"""The paper's Table 4 as samples of one call a length, with its drafter times where given."""

from __future__ import annotations

from typing import Any

import numpy as np

from bench.synthetic import RUN, SETUP
from hybridspec.bench.component_fits import fits, growth, latency_of_pairs, proxy, rows
from hybridspec.bench.component_times import Samples
from hybridspec.bench.files import COMPONENTS_SCHEMA

TABLE = {
    4: (2.498, 5.331, 0.686, 1.019),
    5: (2.659, 5.691, 0.696, 1.017),
    6: (2.835, 6.248, 0.710, 1.026),
    7: (2.984, 7.171, 0.705, 1.026),
    8: (3.096, 7.826, 0.698, 1.037),
    10: (3.413, 8.934, 0.705, 1.033),
    12: (3.734, 9.165, 0.719, 1.050),
    15: (4.224, 10.085, 0.722, 1.057),
    16: (4.350, 10.187, 0.725, 1.065),
}
DRAFTER = {4: 1.795, 8: 1.817, 16: 1.856}


def samples() -> Samples:
    """GDN, MoE, attention, other in ms; lengths without a drafter time have 1.82 ms."""
    out = Samples()
    for w, times in TABLE.items():
        named = dict(zip(("gdn", "moe", "attention", "other"), times, strict=True))
        out.components[w].append(named)
        out.whole[w].append(sum(times) / 1.01)
        out.drafter[w].append(DRAFTER.get(w, 1.82))
        out.pairs[w].append(100 * w)
    out.new.extend([np.array([[8, 8], [8, 8]]), np.array([[8, 7], [8, 6]])])
    return out


def document() -> dict[str, Any]:
    """What `bench profile` would write for it."""
    table = rows(samples())
    return {
        "schema": COMPONENTS_SCHEMA,
        "setup": {**SETUP, "verifier": "per-token"},
        "runs": [RUN],
        "prompts": {"math": 10},
        "repeats": 1,
        "lengths": table,
        "growth": growth(table),
        "fits": fits(table),
        "layer0_proxy": proxy(samples()),
        "latency_of_pairs": latency_of_pairs(samples()),
        "overhead": 0.01,
    }
