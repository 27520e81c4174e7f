"""Data sets, all in one form."""

from sttau.data.dataset import Described, LabeledSequence, PaddedBatch, SequenceDataset, collate
from sttau.data.registry import DATASETS, SPLITS, load
from sttau.data.source import Source
from sttau.data.table import read
from sttau.data.text import build_vocabulary, encode, tokenize
from sttau.data.windows import Windows, windows

__all__ = [
    "DATASETS",
    "SPLITS",
    "Described",
    "LabeledSequence",
    "PaddedBatch",
    "SequenceDataset",
    "Source",
    "Windows",
    "build_vocabulary",
    "collate",
    "encode",
    "load",
    "read",
    "tokenize",
    "windows",
]
