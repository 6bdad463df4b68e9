"""Rounds that never come back to the host: lengths stay on the device, and so does the loop."""
