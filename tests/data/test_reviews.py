from __future__ import annotations

import json
import lzma
import zipfile
from pathlib import Path
from typing import Any

import pytest
import torch

from sttau.data import customer_reviews, load, movie_reviews
from sttau.data.source import fingerprint

pytestmark = pytest.mark.usefixtures("imdb_ready")

SETS = {"customer_reviews": 500, "product_reviews": 500, "movie_reviews": 1000, "movie_review_documents": 1000}
COMPACT = {
    "customer_reviews": "customer_reviews/cr_sentences.jsonl.xz",
    "movie_reviews": "movie_reviews/rt_polarity_sentences.jsonl.xz",
    "movie_review_documents": "movie_reviews/polarity_v2_documents.jsonl.xz",
}


def rows(path: Path) -> list[dict[str, Any]]:
    with lzma.open(path, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


@pytest.mark.parametrize(("name", "count"), SETS.items())
def test_sets_are_balanced_distinct_and_in_imdbs_vocabulary(files: Any, name: str, count: int) -> None:
    data = load(name, "test")
    assert data.labels.bincount().tolist() == [count // 2, count // 2]
    assert data.vocabulary == load("imdb", "validation").vocabulary
    assert data.ids is not None
    assert len(set(data.ids)) == count
    assert data.class_names == ("negative", "positive")


def test_counts_are_the_published_ones(files: Any) -> None:
    counts = {name: [row["label"] for row in rows(files.path(path))] for name, path in COMPACT.items()}
    assert {name: (labels.count(1), labels.count(0)) for name, labels in counts.items()} == {
        "customer_reviews": (2405, 1366),
        "movie_reviews": (5331, 5331),
        "movie_review_documents": (1000, 1000),
    }
    if files.real:
        products = customer_reviews.read_products(files.path("customer_reviews/hu_liu_5_products.zip"))
        assert list(products["label"]).count(1) == 1065
        assert list(products["label"]).count(0) == 635


def test_the_custrev_files_give_the_same_arrays(files: Any, tmp_path: Path) -> None:
    texts = rows(files.path(COMPACT["customer_reviews"]))
    for kind, label in (("pos", 1), ("neg", 0)):
        lines = [row["text"] for row in texts if row["label"] == label]
        (tmp_path / f"custrev.{kind}").write_text("\n".join(lines) + "\n\n\n", "utf-8", newline="\r\n")
    assert_same("customer_reviews", tmp_path)


def test_nltks_archive_of_snippets_gives_the_same_arrays(files: Any, tmp_path: Path) -> None:
    texts = rows(files.path(COMPACT["movie_reviews"]))
    with zipfile.ZipFile(tmp_path / "sentence_polarity.zip", "w") as archive:
        for kind, label in (("neg", 0), ("pos", 1)):
            lines = "".join(row["text"] + " \n" for row in texts if row["label"] == label)
            archive.writestr(f"sentence_polarity/rt-polarity.{kind}", lines)
        archive.writestr("sentence_polarity/README", "a note")
    assert_same("movie_reviews", tmp_path)


def test_nltks_archive_of_documents_gives_the_same_arrays(files: Any, tmp_path: Path) -> None:
    texts = rows(files.path(COMPACT["movie_review_documents"]))
    with zipfile.ZipFile(tmp_path / "movie_reviews.zip", "w") as archive:
        for row in reversed(texts):
            archive.writestr(f"movie_reviews/{('neg', 'pos')[row['label']]}/{row['id']}.txt", row["text"])
        archive.writestr("movie_reviews/README", "a note")
    assert_same("movie_review_documents", tmp_path)


def test_nltks_archive_of_products_gives_the_same_arrays(files: Any, tmp_path: Path) -> None:
    with (
        zipfile.ZipFile(files.path("customer_reviews/hu_liu_5_products.zip")) as one,
        zipfile.ZipFile(tmp_path / "product_reviews_1.zip", "w") as two,
    ):
        for name in reversed(one.namelist()):
            if not name.endswith("/"):
                two.writestr(name, one.read(name).replace(b"\r\n", b"\n").replace(b"\n", b"\r\n"))
    assert_same("product_reviews", tmp_path)


def assert_same(name: str, folder: Path) -> None:
    ours, theirs = load(name, "test"), load(name, "test", path=folder)
    assert torch.equal(ours.inputs, theirs.inputs)
    assert torch.equal(ours.labels, theirs.labels)
    assert ours.ids == theirs.ids


def test_only_sentences_with_remarks_of_one_kind_are_taken_from_products(tmp_path: Path) -> None:
    path = tmp_path / "product_reviews_1.zip"
    lines = ["size[+2][u], price[+1]##good", "size[-3[p]##bad", "a[+1],b[-1]##both", "##none", "[t]size[+1] title"]
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("x/Nokia.txt", "\n".join(lines))
        archive.writestr("x/Readme.txt", "size[+2]##an example")
    content = customer_reviews.read_products(path)
    assert (content["text"], list(content["label"])) == (["good", "bad"], [1, 0])


def test_older_copies_in_latin_1_are_read_too(tmp_path: Path) -> None:
    for encoding in ("utf-8", "latin-1"):
        with zipfile.ZipFile(tmp_path / f"{encoding}.zip", "w") as archive:
            archive.writestr("rt-polarity.pos", "el ladrón de orquídeas \x97 fine\n".encode(encoding))
            archive.writestr("rt-polarity.neg", b"dull\n")
    old, new = (movie_reviews.read_sentences(tmp_path / f"{encoding}.zip") for encoding in ("latin-1", "utf-8"))
    assert fingerprint(old) == fingerprint(new)


def test_an_archive_of_something_else_is_refused(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "sentence_polarity.zip", "w") as archive:
        archive.writestr("rt-polarity.pos", "fine\n")
        archive.writestr("rt-polarity.neg", "dull\n")
    assert fingerprint(movie_reviews.read_sentences(tmp_path / "sentence_polarity.zip"))
    with pytest.raises(ValueError, match=r"does not hold Sentence polarity dataset v1\.0.* as it was published"):
        load("movie_reviews", "test", path=tmp_path)
