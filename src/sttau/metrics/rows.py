"""Per-example rows of all metrics of a prediction, the basis of values, intervals and tests in tables."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from sttau.metrics.conformal import check_sets
from sttau.metrics.inputs import check_classification, check_forecast, check_scores
from sttau.metrics.record import Task
from sttau.metrics.registry import COLUMNS, METRICS

#: (examples, columns) rows by table column.
Rows = dict[str, Tensor]


def _check_scores(in_distribution: Tensor, ood: Tensor) -> tuple[Tensor, Tensor]:
    return check_scores("in_distribution", in_distribution), check_scores("ood", ood)


_CHECKS: dict[Task, Callable[..., tuple[Tensor, ...]]] = {
    "classification": check_classification,
    "regression": check_forecast,
    "detection": _check_scores,
    "sets": check_sets,
}


def metric_rows(task: Task, *inputs: Tensor) -> Rows:
    """Return the rows of all table columns of a task.

    Args:
        task: ``classification``, ``regression``, ``detection`` or ``sets``.
        *inputs: (probabilities, labels), (mean, variance, targets), the scores of in-distribution and of OOD
            sequences, or (covered, size) of conformal sets; tensors on the CPU.

    Example:
        >>> sorted(metric_rows("classification", torch.tensor([[0.9, 0.1], [0.8, 0.2]]), torch.tensor([0, 1])))
        ['aurc', 'brier', 'ece', 'mce', 'nll', 'pe']
    """
    checked = _CHECKS[task](*inputs)
    return {
        metric.column: metric.per_example.rows(*checked)
        for metric in METRICS.values()
        if metric.per_example is not None and metric.per_example.task == task
    }


def evaluate_rows(rows: Rows) -> dict[str, float]:
    """Return the value of every column, in percent for columns in percent.

    Example:
        >>> rows = metric_rows("classification", torch.tensor([[0.9, 0.1], [0.8, 0.2]]), torch.tensor([0, 1]))
        >>> {name: round(value, 3) for name, value in evaluate_rows(rows).items() if name in ("pe", "brier")}
        {'pe': 50.0, 'brier': 0.65}
    """
    return {
        name: float(COLUMNS[name].weighted(part)(torch.ones(1, len(part), dtype=torch.float64)))
        for name, part in rows.items()
    }
