from __future__ import annotations

from pathlib import Path

import pytest

from sttau.metrics import METRICS
from sttau.metrics.record import Metric
from sttau.metrics.registry import COLUMNS
from tests.extension import copy_package, replace_once, run_copy

NEW_METRIC = '''"""Margin between the two largest probabilities."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from sttau.metrics.inputs import CLASSIFICATION, check_classification
from sttau.metrics.record import Metric, PerExample


def margin(probabilities: Any, labels: Any) -> float:
    """Mean difference between the two largest probabilities."""
    return float(_rows(*check_classification(probabilities, labels)).mean())


def _rows(probabilities: Tensor, labels: Tensor) -> Tensor:
    top = probabilities.double().topk(2, dim=-1).values
    return top[:, :1] - top[:, 1:]


MARGIN = Metric("margin", margin, CLASSIFICATION, "margin", "max", class_name="Margin",
                per_example=PerExample("classification", _rows))

METRICS = (MARGIN,)
'''
USE = """
import torch
from sttau.comparison.columns import COLUMNS
from sttau.metrics import METRICS
from sttau.metrics.rows import evaluate_rows, metric_rows
from sttau.metrics.statistics import metric_intervals, metric_p_values
from sttau.metrics.torchmetrics import Margin
p, y = torch.tensor([[0.9, 0.1], [0.6, 0.4], [0.2, 0.8]]), torch.tensor([0, 1, 1])
value = METRICS["margin"].function(p, y)
metric = Margin()
metric.update(p, y)
rows = metric_rows("classification", p, y)
assert metric.compute() == value and Margin.higher_is_better
assert abs(evaluate_rows(rows)["margin"] - value) < 1e-12 and COLUMNS["margin"].title == "margin"
assert ("a", "margin") in metric_intervals({"a": [rows]}, 3, 10, 0.95, 0)
assert metric_p_values([rows], [rows], 3, 9, 0)["margin"] == 1
"""


def test_names_are_unique_and_keys_of_the_registry() -> None:
    assert all(name == metric.name for name, metric in METRICS.items())
    classes = [metric.class_name for metric in METRICS.values() if metric.class_name is not None]
    assert len(set(classes)) == len(classes)


def test_the_columns_keep_their_names_and_order() -> None:
    assert list(COLUMNS) == [
        "pe", "mse", "mae", "nll", "crps", "brier", "ece", "mce", "aurc", "auroc", "aupr", "coverage", "width",
        "set_coverage", "set_size",
    ]  # fmt: skip
    assert COLUMNS["pe"].heading == "error %"
    assert COLUMNS["coverage"].heading == "95 % interval: coverage %"


@pytest.mark.parametrize("metric", [m for m in METRICS.values() if m.per_example], ids=lambda metric: metric.name)
def test_metrics_that_share_a_column_are_shown_alike_and_weighted_alike(metric: Metric) -> None:
    other = COLUMNS[metric.column]
    for name in ("title", "direction", "digits", "percent", "heading"):
        assert getattr(metric, name) == getattr(other, name)
    assert metric.per_example is not None
    assert other.per_example is not None
    assert metric.per_example.weighted is other.per_example.weighted


def test_a_new_metric_is_one_file_and_one_line(tmp_path: Path) -> None:
    """The torchmetrics class, the table column, its interval and its test follow."""
    package = copy_package(tmp_path)
    (package / "metrics" / "margin.py").write_text(NEW_METRIC, "utf-8")
    replace_once(package / "metrics" / "registry.py", '    "pit",\n', '    "pit",\n    "margin",\n')
    run_copy(package, "-c", USE)


def test_a_metric_without_rows_has_no_weighted_form() -> None:
    with pytest.raises(ValueError, match="'detection' has no weighted form"):
        METRICS["detection"].weighted(None)  # type: ignore[arg-type]
