import sys

from hybridspec.errors import HybridSpecError
from hybridspec.kernels.bench.main import main

try:
    raise SystemExit(main())
except HybridSpecError as error:
    sys.stderr.write(f"Error: {error}\n")
    raise SystemExit(2) from None
