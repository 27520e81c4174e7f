"""Time that a network takes alone on the machine, to train and to predict."""

from __future__ import annotations

import time
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path
from statistics import median

import torch

from sttau.jobs import Cell, Result
from sttau.models import DeepEnsemble
from sttau.training import fit
from sttau_reproduction.classification.splits import load_splits, predict_probabilities
from sttau_reproduction.classification.trained import make_job, trainings_of

EXPERIMENT = "paper-timing"

_GROUPS = 8  # of updates
_FIRST = 4  # of them, in which kernels are made and captured; the others are timed
_GROUP = 10  # updates, or as many as are sorted by length together
_PREDICTED = 1000  # test sequences


def timed_cells(cells: Iterable[Cell]) -> dict[str, tuple[Cell, int]]:
    """The network that is timed for each cell, and how many of it the cell needs, by the cell's key.

    A network is timed once: an ensemble of n takes n times as long as its member.

    Example:
        >>> made = {"cell": "lstm", "hidden_size": 8}
        >>> one = {"method": "lstm", "settings": made, "training": {}, "part": {}, "samples": 10}
        >>> five = one | {"method": "ensemble", "settings": made | {"size": 5}}
        >>> cells = [Cell("paper", "bih", "lstm", 0, one), Cell("paper", "bih", "ensemble", 0, five)]
        >>> (first, count), (member, times) = timed_cells(cells).values()
        >>> first == member, count, times
        (True, 1, 5)
    """
    found = {}
    for cell in cells:
        trainings = trainings_of(cell)
        network = trainings[0]
        settings = {**network.settings, "method": network.method, "samples": cell.settings["samples"]}
        found[cell.key] = (Cell(EXPERIMENT, cell.data, network.method, network.seed, settings), len(trainings))
    return found


class Timing:
    """Times a network like that of a cell, freshly made; to be run when nothing else is.

    Args:
        device: ``cpu`` or ``cuda``.
    """

    def __init__(self, device: str) -> None:
        self.device = device

    def __call__(self, cell: Cell, folder: Path) -> Result:
        """Return ``train_seconds`` for all updates, and ``predict_seconds`` for 1,000 sequences with all samples.

        The cell is one of :func:`timed_cells`.
        """
        began = time.perf_counter()
        if self.device == "cpu":
            torch.set_num_threads(1)
        (training,) = trainings_of(cell)
        metrics = {
            "train_seconds": cell.settings["training"]["updates"] * self._update_seconds(training),
            "predict_seconds": self._predict_seconds(cell, training),
        }
        took = time.perf_counter() - began
        return Result(EXPERIMENT, cell.data, cell.method, None, cell.seed, metrics, cell.settings, took)

    def _update_seconds(self, training: Cell) -> float:
        """The time of one update: the median over groups of them, at whose ends a GPU is waited for."""
        settings = training.settings["training"]
        size = max(_GROUP, settings.get("bucket_batches", 1))
        size = max(1, min(size, settings["updates"] // _GROUPS))
        ends: list[float] = []

        def note() -> float:  # the losses have been read when it is called, so the device has done all
            ends.append(time.perf_counter())
            return 0.0

        job = make_job(training, self.device, None, note, updates=size * _GROUPS, validate_every=size, metric=None)
        fit(job.model, job.data, job.targets, job.lengths, validation=job.validation, options=job.options)
        return float(median(later - sooner for sooner, later in pairwise(ends[_FIRST - 1 :])) / size)

    def _predict_seconds(self, cell: Cell, training: Cell) -> float:
        splits = load_splits(cell.data, cell.settings["part"], self.device)
        model = make_job(training, self.device, None).model
        if isinstance(model, DeepEnsemble) and model.posterior is not None:  # as many as are drawn after training
            model = DeepEnsemble(model.members * model.posterior.size)
        rows = torch.arange(min(_PREDICTED, len(splits.test)))
        data = splits.test.select(rows)
        samples = cell.settings["samples"]
        predict_probabilities(model, data, samples)  # kernels are made on first use, some of them for many rows alone
        began = time.perf_counter()
        predict_probabilities(model, data, samples)
        return (time.perf_counter() - began) * _PREDICTED / len(rows)
