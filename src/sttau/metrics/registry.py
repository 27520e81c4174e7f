"""All metrics by name. A new metric is one new file with its ``METRICS``, and one line here."""

from __future__ import annotations

from importlib import import_module

from sttau.metrics.record import Metric

#: Modules of this package that define metrics, in the order of table columns.
_MODULES = (
    "error",
    "squared_error",
    "nll",
    "crps",
    "brier",
    "calibration_error",
    "risk_coverage",
    "detection",
    "prediction_intervals",
    "pit",
    "conformal",
)

#: Every metric by its unique name.
METRICS: dict[str, Metric] = {
    metric.name: metric for module in _MODULES for metric in import_module(f"sttau.metrics.{module}").METRICS
}

#: Every table column by its name in results. Metrics that share a column differ in their inputs only.
COLUMNS: dict[str, Metric] = {metric.column: metric for metric in METRICS.values() if metric.per_example is not None}
