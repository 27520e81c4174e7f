from __future__ import annotations

import io
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from sttau.data import SPLITS, SequenceDataset, encode, imdb, load, tokenize
from sttau.data.source import fingerprint

pytestmark = pytest.mark.usefixtures("imdb_ready")


@pytest.fixture(scope="module")
def parts(imdb_ready: None) -> dict[str, SequenceDataset]:
    return {split: load("imdb", split) for split in SPLITS}


@pytest.fixture(scope="module")
def content(files: Any) -> dict[str, Any]:
    return dict(imdb.read_compact(files.path("imdb/imdb.jsonl.xz")))


@pytest.fixture(scope="module")
def reviews(content: dict[str, Any]) -> dict[str, str]:
    """The texts, by the ids of the data set."""
    rows = zip(*(content[name].tolist() for name in ("test", "label", "id", "rating")), strict=True)
    return {
        f"{('train', 'test')[test]}/{('neg', 'pos')[label]}/{number}_{rating}": text
        for (test, label, number, rating), text in zip(rows, content["text"], strict=True)
    }


def tokens(data: SequenceDataset, row: int) -> list[int]:
    ids: list[int] = data.inputs[row, : int(data.lengths[row])].tolist()
    return ids


def test_parts_are_balanced_and_hold_every_review_once(parts: dict[str, SequenceDataset]) -> None:
    assert {split: part.labels.bincount().tolist() for split, part in parts.items()} == {
        "train": [11_500, 11_500],
        "validation": [1_000, 1_000],
        "test": [12_500, 12_500],
    }
    names = [name for part in parts.values() for name in part.ids or ()]
    assert len(names) == len(set(names)) == 50_000
    assert all(name.startswith("test/") for name in parts["test"].ids or ())
    labels = {"neg": 0, "pos": 1}
    for part in parts.values():
        assert [labels[name.split("/")[1]] for name in part.ids or ()] == part.labels.tolist()


def test_no_text_that_is_trained_on_is_in_another_part(
    parts: dict[str, SequenceDataset], reviews: dict[str, str]
) -> None:
    def plain(name: str) -> str:
        return " ".join(reviews[name].replace("<br />", " ").lower().split())

    texts = {split: set(map(plain, part.ids or ())) for split, part in parts.items()}
    assert not texts["train"] & texts["validation"]
    assert not texts["train"] & texts["test"]
    # what the official parts share is known, and stated where the data is
    assert len(texts["validation"] & texts["test"]) == 123
    assert "123" in parts["validation"].provenance


def test_the_vocabulary_is_counted_on_the_training_part_only(parts: dict[str, SequenceDataset]) -> None:
    vocabulary = parts["train"].vocabulary
    assert vocabulary is not None
    assert vocabulary[:2] == ("<pad>", "<unk>")
    assert len(set(vocabulary)) == len(vocabulary) == 5000
    assert all(part.vocabulary == vocabulary for part in parts.values())
    ranked = {}
    for split, part in parts.items():
        counts = np.bincount(part.inputs.numpy().ravel(), minlength=5000)[2:].tolist()
        pairs = list(zip((-count for count in counts), vocabulary[2:], strict=True))
        ranked[split] = pairs == sorted(pairs)
    assert ranked == {"train": True, "validation": False, "test": False}


def test_token_ids_are_those_of_the_texts(parts: dict[str, SequenceDataset], reviews: dict[str, str]) -> None:
    for part in parts.values():
        assert part.ids is not None
        assert part.vocabulary is not None
        longest = int(part.lengths.argmax())
        for row in (0, longest, len(part) - 1):
            again, length = encode(reviews[part.ids[row]], part.vocabulary)
            assert tokens(part, row) == again[0].tolist()
            assert int(part.lengths[row]) == int(length)


def test_stanfords_archive_gives_the_same_arrays(
    content: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On every 25th review, in the archive's own layout and with what else lies in it, in another order."""
    some: dict[str, Any] = {name: value[::25] for name, value in content.items()}
    path = tmp_path / "aclImdb_v1.tar.gz"
    with tarfile.open(path, "w:gz", compresslevel=1) as archive:

        def add(name: str, text: str) -> None:
            info = tarfile.TarInfo(f"aclImdb/{name}")
            info.size = len(text.encode())
            archive.addfile(info, io.BytesIO(text.encode()))

        add("README", "Large Movie Review Dataset v1.0")
        add("train/unsup/0_0.txt", "a review without a label")
        add("train/urls_pos.txt", "http://")
        for row in reversed(range(len(some["text"]))):
            split, label = ("train", "test")[some["test"][row]], ("neg", "pos")[some["label"][row]]
            add(f"{split}/{label}/{some['id'][row]}_{some['rating'][row]}.txt", some["text"][row])
    again = imdb.read_tarball(path)
    assert again["text"] == some["text"]
    assert fingerprint(again) == fingerprint(some)

    monkeypatch.setattr(imdb, "VALIDATION_SIZE", 20)
    made, remade = imdb._make(some), imdb._make(again)
    assert all(np.array_equal(made[name], remade[name]) for name in made)


def test_validation_takes_what_is_tested_too_and_never_one_of_several_copies() -> None:
    first = np.array([0, 1, 2, 1, *range(4, 2500), 0])  # 1 and 3 are one text; the last, in the test part, repeats 0
    test = np.arange(len(first)) == len(first) - 1
    labels = np.arange(len(first)) % 2
    chosen = imdb._choose_validation(first, test, labels)
    assert len(chosen) == len(set(chosen.tolist())) == 2000
    assert 0 in chosen
    assert not {1, 3, len(first) - 1} & set(chosen.tolist())


def test_the_longest_review_is_not_cut(files: Any, parts: dict[str, SequenceDataset], reviews: dict[str, str]) -> None:
    longest = max(int(part.lengths.max()) for part in parts.values())
    assert longest == max(len(tokenize(text)) for text in sorted(reviews.values(), key=len)[-50:])
    assert all(part.inputs.dtype == torch.int32 for part in parts.values())
    if files.real:
        assert longest == 2803
