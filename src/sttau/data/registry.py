"""All data sets by name. A new one is one new file and one new line here."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from sttau.data import customer_reviews, digits, heartbeats, household_power, imdb, movie_reviews
from sttau.data.dataset import SequenceDataset
from sttau.data.source import Source
from sttau.data.stochastic import describe_stochastic, load_stochastic
from sttau.data.tomita import describe_tomita, load_tomita
from sttau.languages import STOCHASTIC_LANGUAGES, TOMITA_GRAMMARS

SPLITS = ("train", "validation", "test")


class Entry(NamedTuple):
    """How a data set is loaded, and what is known about it."""

    load: Callable[..., SequenceDataset]
    source: Source
    needs: tuple[Source, ...] = ()  # others that are read with it


DATASETS: dict[str, Entry] = {
    "bih": Entry(heartbeats.load_bih, heartbeats.PUBLISHED),
    "bih_inter_patient": Entry(heartbeats.load_bih_inter_patient, heartbeats.INTER_PATIENT),
    "imdb": Entry(imdb.load_imdb, imdb.SOURCE),
    "customer_reviews": Entry(customer_reviews.load_customer_reviews, customer_reviews.SOURCE, (imdb.SOURCE,)),
    "product_reviews": Entry(customer_reviews.load_product_reviews, customer_reviews.PRODUCTS, (imdb.SOURCE,)),
    "movie_reviews": Entry(movie_reviews.load_movie_reviews, movie_reviews.SENTENCES, (imdb.SOURCE,)),
    "movie_review_documents": Entry(movie_reviews.load_movie_review_documents, movie_reviews.DOCUMENTS, (imdb.SOURCE,)),
    "household_power": Entry(household_power.load_household_power, household_power.SOURCE),
    "digits": Entry(digits.load_digits, digits.SOURCE),
    **{f"tomita{number}": Entry(partial(load_tomita, number), describe_tomita(number)) for number in TOMITA_GRAMMARS},
    **{
        f"stochastic{number}": Entry(partial(load_stochastic, number), describe_stochastic(number))
        for number in STOCHASTIC_LANGUAGES
    },
}


def load(name: str, split: str, **options: Any) -> SequenceDataset:
    """Load one split of a data set.

    Files are looked for in ``$STTAU_DATA``, then in the user's cache, then downloaded from their publisher; see
    docs/data.md. What was read once is kept in the cache in a form that loads fast.

    Args:
        name: one of ``DATASETS``.
        split: ``train``, ``validation`` or ``test``.
        options: ``path``, a folder or file to read from and nowhere else; ``history`` for ``household_power``.

    Example:
        >>> digits = load("digits", "train")
        >>> digits.inputs.shape, digits.class_names[:3]
        (torch.Size([1078, 8, 8]), ('0', '1', '2'))
    """
    entry = find_entry(name)
    if split not in SPLITS:
        raise ValueError(f"split must be one of {', '.join(SPLITS)}; got {split!r}")
    try:
        return entry.load(split, **options)
    except TypeError as error:
        if "unexpected keyword argument" not in str(error):
            raise
        raise TypeError(f"{name} does not take these options: {', '.join(options)} ({error})") from error


def find_entry(name: str) -> Entry:
    """Return what the registry holds on a data set; an error that names the known ones if there is none."""
    if name not in DATASETS:
        raise ValueError(f"name must be one of {', '.join(DATASETS)}; got {name!r}")
    return DATASETS[name]
