"""Film reviews of Pang & Lee, positive or negative: snippets of critics, and whole reviews.

The paper follows Hendrycks & Gimpel (2017) in its choice of OOD text, and there the film reviews are snippets:
that is ``movie_reviews``. ``movie_review_documents`` are whole reviews, which are much closer to those of IMDB.
"""

from __future__ import annotations

import os
from pathlib import Path

from sttau.data import imdb
from sttau.data.archive import read_members
from sttau.data.dataset import SequenceDataset
from sttau.data.entry import Entry
from sttau.data.reviews import decode, label_texts, load_ood, read_compact
from sttau.data.source import Content, Form, Source

_NLTK = "https://raw.githubusercontent.com/nltk/nltk_data/gh-pages/packages/corpora"
_LICENSE = "CC BY 4.0, as stated by their distribution"
_HOMEPAGE = "https://www.cs.cornell.edu/people/pabo/movie-review-data/"


def read_sentences(path: Path) -> Content:
    """Read NLTK's archive of snippets: two files with one snippet per line."""
    texts: dict[str, list[str]] = {}
    for name, content in read_members(path, lambda name: name.name in ("rt-polarity.pos", "rt-polarity.neg")):
        texts[name.suffix] = decode(content).split("\n")
    return label_texts(texts[".pos"], texts[".neg"])


def read_documents(path: Path) -> Content:
    """Read NLTK's archive of whole reviews: one file each, in a folder for each class."""
    texts: dict[str, list[tuple[str, str]]] = {"pos": [], "neg": []}
    for name, content in read_members(path, lambda name: name.suffix == ".txt" and name.parent.name in ("pos", "neg")):
        texts[name.parent.name].append((name.name, decode(content)))
    return label_texts(*([text for _, text in sorted(texts[kind])] for kind in ("pos", "neg")))


SENTENCES = Source(
    name="movie_reviews",
    title="Sentence polarity dataset v1.0: snippets of film reviews",
    license=_LICENSE,
    citation="B. Pang, L. Lee, Seeing Stars: Exploiting Class Relationships for Sentiment Categorization with Respect "
    "to Rating Scales, ACL 2005",
    homepage=_HOMEPAGE,
    sizes={"test": 1000},
    folder="movie_reviews",
    forms=(
        Form("NLTK's archive", ("sentence_polarity.zip",), read_sentences, urls=(f"{_NLTK}/sentence_polarity.zip",)),
        Form("one compact file", ("rt_polarity_sentences.jsonl.xz",), read_compact),
    ),
    content="de76f2cbf52a42206d8afb76044df1d0b0aa8db04f0311468ce0558bc64a0fec",
)

DOCUMENTS = Source(
    name="movie_review_documents",
    title="Polarity dataset v2.0: whole film reviews",
    license=_LICENSE,
    citation="B. Pang, L. Lee, A Sentimental Education: Sentiment Analysis Using Subjectivity Summarization Based on "
    "Minimum Cuts, ACL 2004; B. Pang, L. Lee, S. Vaithyanathan, Thumbs up?, EMNLP 2002",
    homepage=_HOMEPAGE,
    sizes={"test": 1000},
    folder="movie_reviews",
    forms=(
        Form("NLTK's archive", ("movie_reviews.zip",), read_documents, urls=(f"{_NLTK}/movie_reviews.zip",)),
        Form("one compact file", ("polarity_v2_documents.jsonl.xz",), read_compact),
    ),
    content="6ec4be10568cc09625c2cdba93cccfe68c82e791bde8a969ccdd11bdce38bc34",
)


def load_movie_reviews(split: str, path: str | os.PathLike[str] | None = None) -> SequenceDataset:
    """Return 1,000 snippets as token ids of IMDB's vocabulary. There is only a test part."""
    return load_ood(SENTENCES, split, path)


def load_movie_review_documents(split: str, path: str | os.PathLike[str] | None = None) -> SequenceDataset:
    """Return 1,000 whole reviews as token ids of IMDB's vocabulary. There is only a test part."""
    return load_ood(DOCUMENTS, split, path)


DATASETS = {
    "movie_reviews": Entry(load_movie_reviews, SENTENCES, (imdb.SOURCE,)),
    "movie_review_documents": Entry(load_movie_review_documents, DOCUMENTS, (imdb.SOURCE,)),
}
