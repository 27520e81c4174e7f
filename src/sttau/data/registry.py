"""All data sets by name. A new one is one new file with its ``DATASETS``, and its name here."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from sttau.data.dataset import SequenceDataset
from sttau.data.entry import Entry

SPLITS = ("train", "validation", "test")

#: The files with ``DATASETS``, in the order of ``sttau data list``.
_FILES = (
    "heartbeats",
    "imdb",
    "customer_reviews",
    "movie_reviews",
    "household_power",
    "digits",
    "tomita",
    "stochastic",
    "opinions",
)

#: Every data set by its name.
DATASETS: dict[str, Entry] = {
    name: entry for file in _FILES for name, entry in import_module(f"sttau.data.{file}").DATASETS.items()
}


def load(name: str, split: str, **options: Any) -> SequenceDataset:
    """Load one split of a data set.

    Files are searched in ``$STTAU_DATA``, then in the user's cache, then downloaded from their publisher; see
    docs/data.md. What was read once is kept in the cache in a form that loads fast.

    Args:
        name: Name of the data set, one of ``DATASETS``.
        split: ``train``, ``validation`` or ``test``.
        options: ``path``, the only folder or file to read from; ``history`` for ``household_power``.

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
    """Return the entry of a data set; an error that lists the names if there is none."""
    if name not in DATASETS:
        raise ValueError(f"name must be one of {', '.join(DATASETS)}; got {name!r}")
    return DATASETS[name]
