import sys

from hybridspec.bench.soak.main import main
from hybridspec.errors import HybridSpecError

try:
    raise SystemExit(main())
except HybridSpecError as error:
    sys.stderr.write(f"Error: {error}\n")
    raise SystemExit(2) from None
