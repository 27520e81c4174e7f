"""Soft labels of training sequences: predictions of other networks, which a network is trained on instead of labels.

The training of a distilled network describes its teachers under ``teacher``: their ``method``, ``settings`` and
``training``, the number of ``members``, and perhaps ``folds`` and ``share``. Soft labels are the mean prediction of the
teachers; with a share below 1, the rest is the label itself. With folds, the training data is divided into as many
folds as there are teachers, and each fold is predicted by the teacher that was not trained on it. Parts of sequences
(``augmentation.py``) have soft labels of their own, and belong to the fold of their sequence.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from sttau.data import SequenceDataset
from sttau.jobs import Cell
from sttau.models import load
from sttau_reproduction.classification.augmentation import KEY as PARTS
from sttau_reproduction.classification.augmentation import load_training_data, training_data
from sttau_reproduction.classification.splits import fold_rows, load_splits, predict_probabilities

KEY = "teacher"


def teachers_of(training: Cell, version: int) -> list[Cell]:
    """The trainings of a training's teachers, on the same part of the data; none where it has no teachers.

    Example:
        >>> teacher = {"method": "lstm", "settings": {}, "training": {}, "members": 2}
        >>> settings = {"training": {"teacher": teacher}, "part": {}}
        >>> [(cell.method, cell.seed) for cell in teachers_of(Cell("network", "imdb", "st-tau", 0, settings), 1)]
        [('lstm', 0), ('lstm', 1)]
    """
    declared = training.settings["training"].get(KEY)
    if declared is None:
        return []
    count, found = declared["members"], []
    for number in range(count):
        fold = {"folds": count, "fold": number} if declared.get("folds") else {}
        depends = {
            "settings": declared["settings"],
            "training": declared["training"],
            "part": {**training.settings["part"], **fold},
        }
        found.append(Cell(training.experiment, training.data, declared["method"], number, depends, version))
    return found


def soft_labels(training: Cell, teachers: list[Path], device: str) -> Tensor | None:
    """The soft labels of all training sequences, (sequences, classes); None for a training without teachers.

    Args:
        training: Training of the network that learns from them.
        teachers: Files of the trained teachers.
        device: Device of the teachers.
    """
    declared: dict[str, Any] | None = training.settings["training"].get(KEY)
    if declared is None:
        return None
    data = training_data(training, device)
    settings = training.settings
    part, parts = tuple(sorted(settings["part"].items())), settings["training"].get(PARTS, 0)
    said = _said(training.data, part, parts, tuple(teachers), bool(declared.get("folds")), device)
    share = declared.get("share", 1.0)
    soft: Tensor = share * said + (1 - share) * F.one_hot(data.labels, said.shape[-1]).to(said)
    return soft


@lru_cache(maxsize=4)
def _said(
    name: str, part: tuple[tuple[str, int], ...], parts: int, teachers: tuple[Path, ...], folds: bool, device: str
) -> Tensor:
    """Predictions of the teachers, made once for all networks that have the same ones."""
    data = load_training_data(name, part, parts, device)
    models = [load(path).to(device).eval() for path in teachers]
    if not folds:
        return torch.stack([_mean(model, data) for model in models]).mean(0)
    said = torch.zeros(len(data), len(data.class_names), dtype=torch.float64)
    whole = len(load_splits(name, dict(part), device).train)
    for number, model in enumerate(models):
        first = fold_rows(whole, len(models), number)
        rows = torch.cat([first + offset for offset in range(0, len(data), whole)])
        said[rows] = _mean(model, data.select(rows))
    return said


def _mean(model: Any, data: SequenceDataset) -> Tensor:
    return predict_probabilities(model, data).double().mean(0)
