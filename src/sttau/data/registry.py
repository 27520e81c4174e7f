"""All data sets by name. A new one is one new file and one new line here."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from sttau.data.dataset import SequenceDataset
from sttau.data.digits import load_digits
from sttau.data.tomita import GRAMMARS, load_tomita

SPLITS = ("train", "validation", "test")

DATASETS: dict[str, Callable[[str], SequenceDataset]] = {
    "digits": load_digits,
    **{f"tomita{number}": partial(load_tomita, number) for number in GRAMMARS},
}


def load(name: str, split: str) -> SequenceDataset:
    """Load one split of a data set.

    Args:
        name: one of ``DATASETS``.
        split: ``train``, ``validation`` or ``test``.

    Example:
        >>> digits = load("digits", "train")
        >>> digits.inputs.shape, digits.class_names[:3]
        (torch.Size([1078, 8, 8]), ('0', '1', '2'))
    """
    if name not in DATASETS:
        raise ValueError(f"name must be one of {', '.join(DATASETS)}; got {name!r}")
    if split not in SPLITS:
        raise ValueError(f"split must be one of {', '.join(SPLITS)}; got {split!r}")
    return DATASETS[name](split)
