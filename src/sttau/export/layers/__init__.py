"""Recurrent layers as ONNX operations: a Scan over time, whatever the number of steps, sequences and samples."""

from sttau.export.layers.base import Batch
from sttau.export.layers.finite_state import last_distribution
from sttau.export.layers.registry import find_form

__all__ = ["Batch", "find_form", "last_distribution"]
