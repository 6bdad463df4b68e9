"""Runs the peers' kernels in a process of their own and keeps what they measure."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile

from hybridspec.kernels.bench.setting import Setting


def time_peers(s: Setting) -> None:
    """SGLang's kernels, if their folder was given and there is a GPU.

    Raises:
        RuntimeError: the process failed; with the end of what it said.
    """
    if s.peers is None or s.device.type != "cuda":
        print("peers: not measured; they need a GPU and --peers DIR", flush=True)
        return
    if not s.peers.is_dir():
        raise RuntimeError(f"{s.peers} is no folder; --peers takes what docs/kernels.md describes")
    command = [sys.executable, "-m", "hybridspec.kernels.bench.peers", str(s.peers)]
    with tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True)
        assert process.stdout is not None
        for line in process.stdout:  # as they come: what was measured before a failure is kept
            if line.startswith("{"):
                s.keep(json.loads(line))
        if process.wait():
            errors.seek(0)
            raise RuntimeError(f"the peers' process ended with {process.returncode}: "
                               f"{errors.read()[-2000:].strip().splitlines()[-1:]}")  # fmt: skip
