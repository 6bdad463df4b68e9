"""How the embedded pair was made; README.md says how to run it again."""
