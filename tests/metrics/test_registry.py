from __future__ import annotations

import pytest

from sttau.metrics import METRICS
from sttau.metrics.registry import COLUMNS


def test_names_are_unique_and_keys_of_the_registry() -> None:
    assert all(name == metric.name for name, metric in METRICS.items())
    classes = [metric.class_name for metric in METRICS.values() if metric.class_name is not None]
    assert len(set(classes)) == len(classes)


def test_the_columns_keep_their_names_and_order() -> None:
    assert list(COLUMNS) == [
        "pe", "mse", "mae", "nll", "crps", "brier", "ece", "mce", "aurc", "auroc", "aupr", "coverage", "width",
    ]  # fmt: skip
    assert COLUMNS["pe"].heading == "error %"
    assert COLUMNS["coverage"].heading == "95 % interval: coverage %"


@pytest.mark.parametrize("metric", [m for m in METRICS.values() if m.per_example], ids=lambda metric: metric.name)
def test_metrics_that_share_a_column_are_shown_alike_and_weighted_alike(metric: object) -> None:
    other = COLUMNS[getattr(metric, "column")]  # noqa: B009
    for name in ("title", "direction", "digits", "percent", "heading"):
        assert getattr(metric, name) == getattr(other, name)
    assert getattr(metric, "per_example").weighted is other.per_example.weighted  # type: ignore[union-attr]  # noqa: B009


def test_a_metric_without_rows_has_no_weighted_form() -> None:
    with pytest.raises(ValueError, match="'detection' has no weighted form"):
        METRICS["detection"].weighted(None)  # type: ignore[arg-type]
