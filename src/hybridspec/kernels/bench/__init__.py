"""Checks and timings of every kernel: `python -m hybridspec.kernels.bench --out FILE`."""
