"""Handwritten digits that come with scikit-learn, read row by row: small real data that needs no download."""

from __future__ import annotations

import torch

from sttau.data.dataset import SequenceDataset
from sttau.data.entry import Entry
from sttau.data.source import Source

_SEED = 0
_PARTS = {"train": (0.0, 0.6), "validation": (0.6, 0.8), "test": (0.8, 1.0)}

SOURCE = Source(
    name="digits",
    title="UCI Optical Recognition of Handwritten Digits, test part, as shipped with scikit-learn",
    license="CC BY 4.0",
    citation="E. Alpaydin, C. Kaynak, 1998, UCI Machine Learning Repository, doi:10.24432/C50P49",
    homepage="https://archive.ics.uci.edu/dataset/80/optical+recognition+of+handwritten+digits",
    sizes={"train": 1078, "validation": 360, "test": 359},
)


def load_digits(split: str) -> SequenceDataset:
    """Return 8×8 images as 8 steps of 8 features in [0, 1], ten classes; 60 / 20 / 20 % of each class."""
    from sklearn.datasets import load_digits as read

    images, target = read(return_X_y=True)
    inputs = torch.as_tensor(images, dtype=torch.float32).reshape(-1, 8, 8) / 16
    labels = torch.as_tensor(target, dtype=torch.int64)
    generator = torch.Generator().manual_seed(_SEED)
    low, high = _PARTS[split]
    rows = []
    for digit in range(10):
        of_digit = (labels == digit).nonzero()[:, 0]
        of_digit = of_digit[torch.randperm(len(of_digit), generator=generator)]
        rows.append(of_digit[round(low * len(of_digit)) : round(high * len(of_digit))])
    chosen = torch.cat(rows)
    return SequenceDataset(
        name="digits",
        split=split,
        inputs=inputs[chosen],
        lengths=torch.full((len(chosen),), 8),
        labels=labels[chosen],
        class_names=tuple("0123456789"),
        provenance=SOURCE.provenance("60 / 20 / 20 % of each class, by a fixed seed"),
    )


DATASETS = {"digits": Entry(load_digits, SOURCE)}
