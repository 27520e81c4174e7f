"""Data sets, all in one form."""

from sttau.data.dataset import SequenceDataset
from sttau.data.registry import DATASETS, SPLITS, load

__all__ = ["DATASETS", "SPLITS", "SequenceDataset", "load"]
