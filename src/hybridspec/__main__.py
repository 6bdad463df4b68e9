"""`python -m hybridspec` is the command `hybridspec`."""

from hybridspec.cli.main import main

if __name__ == "__main__":
    main()
