"""A made-up SGLang: a site that looks patched, and a driver that says made-up times."""

from __future__ import annotations

from pathlib import Path

from hybridspec.bench.scripted import sglang

DRIVER = """\
import json, os, sys
mode = sys.argv[1]
assert os.environ["HF_HUB_OFFLINE"] == "1" and os.environ["PYTHONPATH"].endswith("/site")
print("WARNING: made up", file=sys.stderr)
print(mode, "startup s", 61.5, flush=True)
if mode == "dflash8":
    raise RuntimeError("out of memory")
if "COUNT_EXPERTS" in os.environ:
    with open(os.environ["COUNT_EXPERTS"], "w") as file:
        json.dump({"1": [8.0, 40.0], "16": [50.0, 400.0]}, file)
for rep, more in enumerate((0.0, 0.2, 5.0)):
    ms = (4.0 if mode == "ar" else 10.0) + more + float(os.environ["ROUTING_SKEW"])
    print(json.dumps({"mode": mode, "rep": rep, "ms_per_round": ms}), flush=True)
"""


def made_up_site(folder: Path) -> tuple[Path, Path]:
    """SITE and DIR."""
    site, peers = folder / "site", folder / "peers"
    for file, mark in sglang.PATCHES.values():
        (site / file).parent.mkdir(parents=True, exist_ok=True)
        (site / file).write_text(f"{mark}\n")
    peers.mkdir()
    (peers / sglang.DRIVER).write_text(DRIVER)
    return site, peers
