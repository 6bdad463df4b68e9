from hybridspec.kernels.bench.main import main

raise SystemExit(main())
