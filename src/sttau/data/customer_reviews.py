"""Sentences from reviews of products, positive or negative (Hu & Liu, 2004): OOD for a model of film reviews.

``customer_reviews`` is the collection known as CR, used in papers on sentences. ``product_reviews`` are the sentences
of the five annotated products themselves, those whose remarks are all positive or all negative.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from sttau.data import imdb
from sttau.data.archive import read_members
from sttau.data.dataset import SequenceDataset
from sttau.data.entry import Entry
from sttau.data.reviews import decode, label_texts, load_ood, read_compact
from sttau.data.source import Content, Form, Source

_REPOSITORY = "https://raw.githubusercontent.com/harvardnlp/sent-conv-torch/7917668a7bf647fc9e7b02bdbc40d8ab5567ea67"


def read_lines(positive: Path, negative: Path) -> Content:
    """Read two files with one sentence per line."""
    return label_texts(*(decode(path.read_bytes()).split("\n") for path in (positive, negative)))


def read_products(path: Path) -> Content:
    """Read the five annotated products: ``feature[+2], other[-1]##sentence``, one file each."""
    texts: dict[str, list[str]] = {"+": [], "-": []}
    files = dict(read_members(path, lambda name: name.suffix == ".txt" and name.stem.lower() != "readme"))
    for name in sorted(files):
        for line in decode(files[name]).split("\n"):
            remarks, mark, sentence = line.partition("##")
            signs = set(re.findall(r"\[([+-])", remarks))
            if mark and len(signs) == 1:
                texts[signs.pop()].append(sentence)
    return label_texts(texts["+"], texts["-"])


SOURCE = Source(
    name="customer_reviews",
    title="Customer reviews, sentences (CR)",
    license="none stated for the sentences; the five-product collection they extend is CC BY 4.0",
    citation="M. Hu, B. Liu, Mining and Summarizing Customer Reviews, KDD 2004",
    homepage="https://www.cs.uic.edu/~liub/FBS/sentiment-analysis.html",
    sizes={"test": 500},
    folder="customer_reviews",
    forms=(
        Form(
            "the two custrev files",
            ("custrev.pos", "custrev.neg"),
            read_lines,
            urls=(f"{_REPOSITORY}/data/custrev.pos", f"{_REPOSITORY}/data/custrev.neg"),
        ),
        Form("one compact file", ("cr_sentences.jsonl.xz",), read_compact),
    ),
    content="00bcc7e2a23c0b959a932f396e2bc27ff263d196acda0d72d11f82ab9660fb0d",
)


PRODUCTS = Source(
    name="product_reviews",
    title="Customer reviews of five products, annotated sentences",
    license="CC BY 4.0, as stated by their distribution (© 2004 Bing Liu)",
    citation=SOURCE.citation,
    homepage=SOURCE.homepage,
    sizes={"test": 500},
    folder="customer_reviews",
    forms=(
        Form(
            "NLTK's archive",
            ("product_reviews_1.zip",),
            read_products,
            urls=("https://raw.githubusercontent.com/nltk/nltk_data/gh-pages/packages/corpora/product_reviews_1.zip",),
        ),
        Form("the same archive under another name", ("hu_liu_5_products.zip",), read_products),
    ),
    content="75c429ddda61922194e163ce3798e73020004914b3c754c334e6cac0ee59c8cd",
)


def load_customer_reviews(split: str, path: str | os.PathLike[str] | None = None) -> SequenceDataset:
    """Return 500 sentences as token ids of IMDB's vocabulary. There is only a test part."""
    return load_ood(SOURCE, split, path)


def load_product_reviews(split: str, path: str | os.PathLike[str] | None = None) -> SequenceDataset:
    """Return 500 sentences on five products as token ids of IMDB's vocabulary. There is only a test part."""
    return load_ood(PRODUCTS, split, path)


DATASETS = {
    "customer_reviews": Entry(load_customer_reviews, SOURCE, (imdb.SOURCE,)),
    "product_reviews": Entry(load_product_reviews, PRODUCTS, (imdb.SOURCE,)),
}
