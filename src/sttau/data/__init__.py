"""Data sets, all in one form."""

from sttau.data.arrays import from_arrays
from sttau.data.chunks import read_chunks
from sttau.data.dataset import Described, LabeledSequence, PaddedBatch, SequenceDataset, collate
from sttau.data.registry import DATASETS, SPLITS, load
from sttau.data.schema import Schema
from sttau.data.source import Source
from sttau.data.split import separate, split
from sttau.data.table import read
from sttau.data.text import build_vocabulary, encode, tokenize
from sttau.data.windows import Windows, windows

__all__ = [
    "DATASETS",
    "SPLITS",
    "Described",
    "LabeledSequence",
    "PaddedBatch",
    "Schema",
    "SequenceDataset",
    "Source",
    "Windows",
    "build_vocabulary",
    "collate",
    "encode",
    "from_arrays",
    "load",
    "read",
    "read_chunks",
    "separate",
    "split",
    "tokenize",
    "windows",
]
