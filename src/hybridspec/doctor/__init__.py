"""Whether a pair runs on this machine, and as it should: checks, each of which gives findings."""
