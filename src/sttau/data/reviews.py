"""What the out-of-distribution reviews share: they are encoded with IMDB's vocabulary."""

from __future__ import annotations

import json
import lzma
import os
from pathlib import Path

import numpy as np
import torch

from sttau.data.dataset import SequenceDataset
from sttau.data.imdb import CLASS_NAMES, load_vocabulary
from sttau.data.source import Array, Content, Source, read_content
from sttau.data.split import shuffle
from sttau.data.text import encode, find_repeats, tabulate

_SEED = 0


def label_texts(positive: list[str], negative: list[str]) -> Content:
    """Return texts in the order all forms agree on: positive ones first, blank ones left out."""
    good, bad = ([text for text in texts if text.strip()] for texts in (positive, negative))
    return {"label": np.array([1] * len(good) + [0] * len(bad), dtype=np.uint8), "text": good + bad}


def decode(content: bytes) -> str:
    """Return text that is in UTF-8 or, in older copies, in Latin-1."""
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError:
        return content.decode("latin-1")


def read_compact(path: Path) -> Content:
    """Read one JSON object per line, with ``label`` and ``text``."""
    with lzma.open(path, "rt", encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines]
    return label_texts(*([row["text"] for row in rows if row["label"] == label] for label in (1, 0)))


def load_ood(source: Source, split: str, path: str | os.PathLike[str] | None = None) -> SequenceDataset:
    """Return a test set of distinct reviews, half of them positive, drawn by a fixed seed."""
    if split not in source.sizes:
        raise ValueError(f"{source.name} is a test set for models trained on imdb: split must be 'test', got {split!r}")
    content = read_content(source, path)
    texts, labels = content["text"], np.asarray(content["label"])
    assert isinstance(texts, list)
    rows = _draw(texts, labels, source.sizes[split])
    vocabulary = load_vocabulary()
    inputs, lengths = encode([texts[row] for row in rows], vocabulary)
    how = (
        f"{len(rows)} of {len(texts):,}, distinct, half of them positive, seed {_SEED}; tokens of imdb's training part"
    )
    return SequenceDataset(
        name=source.name,
        split=split,
        inputs=inputs,
        lengths=lengths,
        labels=torch.from_numpy(labels[rows].astype(np.int64)),
        class_names=CLASS_NAMES,
        vocabulary=vocabulary,
        ids=tuple(f"{CLASS_NAMES[labels[row]]}/{row}" for row in rows),
        provenance=source.provenance(how),
    )


def _draw(texts: list[str], labels: Array, count: int) -> Array:
    first = find_repeats(tabulate(texts))
    order = shuffle(len(texts), _SEED)
    order = order[first[order] == order]
    rows = np.concatenate([order[labels[order] == label][: count // 2] for label in (0, 1)])
    return rows[shuffle(len(rows), _SEED + 1)]
