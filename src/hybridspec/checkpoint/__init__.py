"""Hugging Face checkpoints in, our weights out; what does not belong is refused with a sentence."""

from hybridspec.checkpoint.drafter_config import read_drafter_config
from hybridspec.checkpoint.generation_config import GenerationConfig, read_generation_config
from hybridspec.checkpoint.identity import fingerprint, hub_revision
from hybridspec.checkpoint.loader import load_drafter, load_target
from hybridspec.checkpoint.pair import check_pair
from hybridspec.checkpoint.source import resolve
from hybridspec.checkpoint.target_config import read_target_config
from hybridspec.checkpoint.writer import save_drafter, save_target

__all__ = [
    "GenerationConfig",
    "check_pair",
    "fingerprint",
    "hub_revision",
    "load_drafter",
    "load_target",
    "read_drafter_config",
    "read_generation_config",
    "read_target_config",
    "resolve",
    "save_drafter",
    "save_target",
]
