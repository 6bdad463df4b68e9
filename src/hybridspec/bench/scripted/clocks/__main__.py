"""`python -m hybridspec.bench.scripted.clocks --out PATH`."""

from hybridspec.bench.scripted.clocks.verb import main

raise SystemExit(main())
