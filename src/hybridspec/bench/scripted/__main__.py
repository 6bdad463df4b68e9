"""Scripted runs of the 35B shape: `python -m hybridspec.bench.scripted --out FOLDER`."""

from hybridspec.bench.scripted.verb import main

raise SystemExit(main())
