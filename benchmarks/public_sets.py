"""Small public data sets on which defaults are chosen and methods are compared.

Eight are part of the package aeon (``pip install aeon``; the UCR and UEA archives), the rest are data sets of sttau.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import torch

from sttau.data import SequenceDataset, build_vocabulary, encode, load
from sttau.data.movie_reviews import SENTENCES
from sttau.data.source import read_content
from sttau.data.split import shuffle

#: Sets on whose validation data the defaults were chosen.
STUDY = (
    "JapaneseVowels", "GunPoint", "ItalyPowerDemand", "BasicMotions", "ArrowHead", "OSULeaf",
    "digits", "film-snippets", "household-power",
)  # fmt: skip
#: Sets that had no part in the choice.
HELD_OUT = ("PickupGestureWiimoteZ", "ACSF1", "heartbeats", "customer-reviews")

#: Texts and their labels.
Texts = tuple[list[str], np.ndarray]


def load_set(name: str) -> tuple[SequenceDataset, SequenceDataset]:
    """Return the training and the test data of a set."""
    own: dict[str, Callable[[], tuple[SequenceDataset, SequenceDataset]]] = {
        "digits": _digits,
        "film-snippets": partial(_texts, "film-snippets"),
        "household-power": _household_power,
        "heartbeats": _heartbeats,
        "customer-reviews": partial(_texts, "customer-reviews"),
    }
    if name in own:
        return own[name]()
    return _read_archive(name, "TRAIN"), _read_archive(name, "TEST")


def _digits() -> tuple[SequenceDataset, SequenceDataset]:
    return load("digits", "train"), load("digits", "test")


def _heartbeats() -> tuple[SequenceDataset, SequenceDataset]:
    return _some(load("bih", "train"), 2000), _some(load("bih", "test"), 2000)


def _household_power() -> tuple[SequenceDataset, SequenceDataset]:
    train, test = (load("household_power", split, history=24) for split in ("train", "test"))
    return _some(train[24:], 2000), _some(test[24:], 1000)


def load_texts(name: str) -> tuple[Texts, Texts]:
    """Return the training and the test data of a set of texts as they are written, with their labels."""
    from sttau.data.customer_reviews import SOURCE as REVIEWS

    source, train, test = {"film-snippets": (SENTENCES, 4000, 1000), "customer-reviews": (REVIEWS, 2500, 1000)}[name]
    content = read_content(source)
    texts, labels = list(content["text"]), np.asarray(content["label"]).astype(np.int64)
    order = shuffle(len(texts), seed=0)
    parts = order[:train], order[train : train + test]
    made = [([texts[row] for row in rows], labels[rows]) for rows in parts]
    return made[0], made[1]


def _texts(name: str) -> tuple[SequenceDataset, SequenceDataset]:
    parts = load_texts(name)
    vocabulary = build_vocabulary(parts[0][0], 5000)
    made = []
    for split, (texts, labels) in zip(("train", "test"), parts, strict=True):
        inputs, lengths = encode(texts, vocabulary)
        made.append(
            SequenceDataset(
                name, split, inputs, lengths, torch.from_numpy(labels),
                ("negative", "positive"), "texts drawn at random", vocabulary=vocabulary,
            )
        )  # fmt: skip
    return made[0], made[1]


def _some(data: SequenceDataset, count: int) -> SequenceDataset:
    """Sequences drawn at random, the same on every machine."""
    return data[torch.from_numpy(np.sort(shuffle(len(data), seed=0)[:count]))]


def _read_archive(name: str, split: str) -> SequenceDataset:
    """Read a file of the UCR and UEA archives that is part of aeon, in its text format ``.ts``."""
    package = importlib.util.find_spec("aeon")
    if package is None or package.origin is None:
        raise ImportError("these sets are part of aeon: pip install --no-deps aeon==1.6.0")
    path = Path(package.origin).parent / "datasets" / "data" / name / f"{name}_{split}.ts"
    lines = [line.strip() for line in path.read_text("utf-8").splitlines()]
    start = next(number for number, line in enumerate(lines) if line.lower().startswith("@data"))
    rows = [line.split(":") for line in lines[start + 1 :] if line]
    series = [
        torch.tensor([[float(value) for value in channel.split(",")] for channel in row[:-1]]).T.contiguous()
        for row in rows
    ]
    header = next(line for line in lines if line.lower().startswith("@classlabel"))
    class_names = tuple(header.split()[2:])
    return SequenceDataset(
        name=name,
        split=split.lower(),
        inputs=torch.nn.utils.rnn.pad_sequence(series, batch_first=True),
        lengths=torch.tensor([len(one) for one in series]),
        labels=torch.tensor([class_names.index(row[-1]) for row in rows]),
        class_names=class_names,
        provenance="UCR and UEA archives, as distributed with aeon 1.6.0",
    )
