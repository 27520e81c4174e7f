"""Data sets, all in one form."""

from sttau.data.dataset import SequenceDataset
from sttau.data.registry import DATASETS, SPLITS, load
from sttau.data.source import Source
from sttau.data.text import build_vocabulary, encode, tokenize

__all__ = ["DATASETS", "SPLITS", "SequenceDataset", "Source", "build_vocabulary", "encode", "load", "tokenize"]
