"""A server under load for as long as one likes: `python -m hybridspec.bench.soak`."""
