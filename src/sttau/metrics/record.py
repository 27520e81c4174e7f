"""The record of a metric, from which its torchmetrics class and its table column are derived."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from torch import Tensor

from sttau.metrics.inputs import Inputs

Direction = Literal["min", "max"]
Task = Literal["classification", "regression", "detection", "sets"]

#: Weights of the rows, (rounds, rows), to the metric under each of them, (rounds,).
Weighted = Callable[[Tensor], Tensor]


def weighted_mean(rows: Tensor) -> Weighted:
    """Return the weighted mean of the first column."""
    return lambda weights: (weights @ rows[:, 0]) / weights.sum(1)


@dataclass(frozen=True)
class PerExample:
    """A metric as a function of weighted rows, one row per test example.

    Weights of 1 give the metric itself, the counts of a bootstrap resample give the metric of the resample, and on the
    concatenated rows of two methods, weights of 0 and 1 give the metric in a round of the randomization test.

    Attributes:
        task: Kind of prediction that the rows are computed from. The arguments of ``rows`` are (probabilities, labels)
            for classification, (mean, variance, targets) for regression, the scores of in-distribution and of OOD
            examples for detection, and (covered, size) for conformal sets.
        rows: Function that returns (examples, columns) in float64; for detection the OOD examples come last.
        weighted: Function of the rows that returns the metric as a function of their weights.
    """

    task: Task
    rows: Callable[..., Tensor]
    weighted: Callable[[Tensor], Weighted] = weighted_mean


@dataclass(frozen=True)
class Metric:
    """Definition of a metric.

    Attributes:
        name: Unique name, the key in :data:`sttau.metrics.METRICS`.
        function: Pure function of checked or unchecked inputs; fractions, not percent.
        inputs: Arguments of the function, and how batches of them are accumulated.
        title: Heading of the table column, without unit.
        direction: Whether smaller (``min``) or larger (``max``) is better; None if neither is.
        digits: Digits after the decimal point in a table.
        percent: Whether tables and results show the value times 100.
        key: Name in results and tables, if it differs from ``name``.
        class_name: Name of the class in :mod:`sttau.metrics.torchmetrics`; None for no class.
        per_example: Weighted form, needed for a table column with an interval and a test; None for no column.
    """

    name: str
    function: Callable[..., Any]
    inputs: Inputs
    title: str = ""
    direction: Direction | None = None
    digits: int = 3
    percent: bool = False
    key: str = ""
    class_name: str | None = None
    per_example: PerExample | None = None

    @property
    def column(self) -> str:
        """Name in results and tables."""
        return self.key or self.name

    @property
    def heading(self) -> str:
        """Heading of the table column, with unit."""
        return f"{self.title} %" if self.percent else self.title

    def weighted(self, rows: Tensor) -> Weighted:
        """Return the metric as a function of row weights, in percent if the metric is shown in percent."""
        if self.per_example is None:
            raise ValueError(f"metric {self.name!r} has no weighted form")
        value = self.per_example.weighted(rows)
        return (lambda weights: 100 * value(weights)) if self.percent else value
