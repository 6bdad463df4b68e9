"""Runs the peers' kernels in a process of their own and keeps what they measure."""

from __future__ import annotations

import json
import subprocess
import sys

from hybridspec.kernels.bench.setting import Setting


def time_peers(s: Setting) -> None:
    """SGLang's GDN kernels, if their folder was given and there is a GPU.

    Raises:
        RuntimeError: the process failed; with the end of what it said.
    """
    if s.peers is None or s.device.type != "cuda":
        sys.stdout.write("peers: not measured; they need a GPU and --peers DIR\n")
        return
    command = [sys.executable, "-m", "hybridspec.kernels.bench.peers", str(s.peers)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    for line in done.stdout.splitlines():
        if line.startswith("{"):
            s.keep(json.loads(line))
    if done.returncode:
        raise RuntimeError(done.stderr[-2000:])
