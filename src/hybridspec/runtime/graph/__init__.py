"""Launches described once and run at once, recorded as one CUDA graph, or led by the host."""

from hybridspec.runtime.graph.eager import Eager
from hybridspec.runtime.graph.executable import Executable, Figures, record
from hybridspec.runtime.graph.recorded import Recorded
from hybridspec.runtime.graph.recorder import Arm, Description, GraphError, Recorder, Work

__all__ = [
    "Arm", "Description", "Eager", "Executable", "Figures", "GraphError", "Recorded", "Recorder",
    "Work", "record",
]  # fmt: skip
