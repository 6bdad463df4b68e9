"""A package, since some of its files are named like those of other folders."""
