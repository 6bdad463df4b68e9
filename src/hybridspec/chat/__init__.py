"""A conversation at a terminal, or along the lines of a file: `hybridspec chat`."""
