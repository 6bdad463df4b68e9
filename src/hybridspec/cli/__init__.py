"""The command line: one file a verb. Nothing here imports torch before a verb has work for it."""
