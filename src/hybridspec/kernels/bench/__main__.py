"""Checks and timings of every kernel: `python -m hybridspec.kernels.bench --out FILE`."""

import sys

from hybridspec.bench.kernels import main

raise SystemExit(main(sys.argv[1:]))
