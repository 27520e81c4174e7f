"""Film reviews of IMDB, positive or negative (Maas et al., 2011), as token ids."""

from __future__ import annotations

import json
import lzma
import os
import re
from pathlib import Path, PurePosixPath

import numpy as np
import torch

from sttau.data.archive import read_members
from sttau.data.dataset import SequenceDataset
from sttau.data.entry import Entry
from sttau.data.source import Array, Content, Form, Source, prepare
from sttau.data.split import shuffle
from sttau.data.text import TOKENIZER_VERSION, choose_words, find_repeats, number_words, pad, tabulate

CLASS_NAMES = ("negative", "positive")
VOCABULARY_SIZE = 5000
VALIDATION_SIZE = 2000

_SEED = 0
_RECIPE = f"1.{TOKENIZER_VERSION}"
_REVIEW = re.compile(r"(?:.*/)?(train|test)/(neg|pos)/(\d+)_(\d+)\.txt")
_SPLITS = ("train", "validation", "test")


def read_tarball(path: Path) -> Content:
    """Read Stanford's archive: one file per review, named by split, class, number and rating."""
    rows = []
    for name, text in read_members(path, _is_review):
        match = _REVIEW.fullmatch(str(name))
        assert match is not None
        split, sentiment, number, rating = match.groups()
        rows.append((split == "test", sentiment == "pos", int(number), int(rating), text.decode("utf-8")))
    return _in_order(rows)


def _is_review(name: PurePosixPath) -> bool:
    return _REVIEW.fullmatch(str(name)) is not None


def read_compact(path: Path) -> Content:
    """Read one JSON object per line."""
    with lzma.open(path, "rt", encoding="utf-8") as lines:
        reviews = [json.loads(line) for line in lines]
    return _in_order([(r["split"] == "test", r["label"] == 1, r["id"], r["rating"], r["text"]) for r in reviews])


def _in_order(rows: list[tuple[bool, bool, int, int, str]]) -> Content:
    rows = sorted(rows, key=lambda row: row[:3])
    test, positive, number, rating, text = zip(*rows, strict=True) if rows else ((),) * 5
    return {
        "test": np.array(test, dtype=np.uint8),
        "label": np.array(positive, dtype=np.uint8),
        "id": np.array(number, dtype=np.int32),
        "rating": np.array(rating, dtype=np.uint8),
        "text": list(text),
    }


SOURCE = Source(
    name="imdb",
    title="Large Movie Review Dataset v1.0",
    license="none stated; the authors ask to be cited",
    citation="A. L. Maas, R. E. Daly, P. T. Pham, D. Huang, A. Y. Ng, C. Potts, Learning Word Vectors for Sentiment "
    "Analysis, ACL 2011",
    homepage="https://ai.stanford.edu/~amaas/data/sentiment/",
    sizes={"train": 23_000, "validation": VALIDATION_SIZE, "test": 25_000},
    folder="imdb",
    forms=(
        Form(
            "Stanford's archive",
            ("aclImdb_v1.tar.gz",),
            read_tarball,
            urls=("https://ai.stanford.edu/~amaas/data/sentiment/aclImdb_v1.tar.gz",),
        ),
        Form("one compact file", ("imdb.jsonl.xz",), read_compact),
    ),
    content="b257b63c2617f20732b7b2a7331b6406401825d1517fc6c9bd764a478a7b0fb5",
)


def load_imdb(split: str, path: str | os.PathLike[str] | None = None) -> SequenceDataset:
    """Return reviews as token ids (int32), padded to the longest of the split; 5,000 tokens of the training part.

    2,000 of the 25,000 official training reviews are the validation part, half of them positive. Among them are the 123
    that the official test part holds too, word for word, so that nothing that is tested was trained on; all others are
    reviews that occur only once. Test is the official one. All parts are in a seeded random order.
    """
    names = {kind: f"{kind}_{split}" for kind in ("tokens", "length", "label", "id", "rating")}
    arrays = prepare(SOURCE, _RECIPE, _make, (*names.values(), "vocabulary"), path)
    inputs, lengths = pad(arrays[names["tokens"]], arrays[names["length"]])
    labels = arrays[names["label"]]
    how = (
        "Official test part; of the official training part 2,000 are held out, among them the 123 texts that are also "
        "in the test part. No text is in both training and another part; validation and test share those 123"
    )
    official = "test" if split == "test" else "train"
    files = zip(labels.tolist(), arrays[names["id"]].tolist(), arrays[names["rating"]].tolist(), strict=True)
    return SequenceDataset(
        name="imdb",
        split=split,
        inputs=inputs,
        lengths=lengths,
        labels=torch.from_numpy(labels.astype(np.int64)),
        class_names=CLASS_NAMES,
        vocabulary=tuple(arrays["vocabulary"].tolist()),
        ids=tuple(f"{official}/{('neg', 'pos')[label]}/{number}_{rating}" for label, number, rating in files),
        provenance=SOURCE.provenance(how),
    )


def load_vocabulary() -> tuple[str, ...]:
    """Return the tokens of IMDB's training part, which other reviews are read with."""
    return tuple(prepare(SOURCE, _RECIPE, _make, ("vocabulary",))["vocabulary"].tolist())


def _make(content: Content) -> dict[str, Array]:
    test, labels = np.asarray(content["test"]) == 1, np.asarray(content["label"])
    texts = content["text"]
    assert isinstance(texts, list)
    table = tabulate(texts)
    part = np.where(test, 2, 0)
    part[_choose_validation(find_repeats(table), test, labels)] = 1

    of_training = np.repeat(part == 0, table.lengths)
    counts = np.bincount(table.numbers[of_training], minlength=len(table.words))
    vocabulary = choose_words(table.words, counts, VOCABULARY_SIZE)
    numbers = number_words(table.words, vocabulary)[table.numbers]
    starts = np.cumsum(table.lengths) - table.lengths

    order = shuffle(len(labels), _SEED)
    arrays: dict[str, Array] = {"vocabulary": np.array(vocabulary)}
    for which, split in enumerate(_SPLITS):
        rows = order[part[order] == which]
        pieces = [
            numbers[start : start + length] for start, length in zip(starts[rows], table.lengths[rows], strict=True)
        ]
        arrays[f"tokens_{split}"] = np.concatenate(pieces)
        arrays[f"length_{split}"] = table.lengths[rows].astype(np.int32)
        for kind in ("label", "id", "rating"):
            arrays[f"{kind}_{split}"] = np.asarray(content[kind])[rows]
    return arrays


def _choose_validation(first: Array, test: Array, labels: Array) -> Array:
    """Positions of the validation part: half of each class, no text of it in the training part.

    Args:
        first: (reviews,) for each the first with the same text.
        test: (reviews,) whether it is in the official test part.
        labels: (reviews,)
    """
    copies = np.bincount(first, minlength=len(first))[first]
    tested = np.isin(first, first[test])
    order = shuffle(len(labels), _SEED + 1)
    order = order[~test[order]]
    chosen = []
    for label in (0, 1):
        of_class = order[labels[order] == label]
        also_tested = of_class[tested[of_class]]
        alone = of_class[(copies[of_class] == 1)]
        chosen += [also_tested, alone[: VALIDATION_SIZE // 2 - len(also_tested)]]
    return np.concatenate(chosen)


DATASETS = {"imdb": Entry(load_imdb, SOURCE)}
