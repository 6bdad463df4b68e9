"""The embedded pair: a small target and drafter that we trained, in the real file formats."""

from pathlib import Path

PAIR = Path(__file__).parent / "pair"
TARGET = PAIR / "target"
DRAFTER = PAIR / "drafter"
PROFILE = PAIR / "profile.json"
