"""Confidence intervals and significance tests of metrics."""

from sttau.metrics.statistics.intervals import (
    Interval,
    bootstrap_interval,
    calibration_error_by_chance,
    calibration_error_intervals,
    metric_intervals,
)
from sttau.metrics.statistics.significance import (
    Comparison,
    holm,
    metric_p_values,
    paired_bootstrap,
    randomization_test,
)

__all__ = [
    "Comparison",
    "Interval",
    "bootstrap_interval",
    "calibration_error_by_chance",
    "calibration_error_intervals",
    "holm",
    "metric_intervals",
    "metric_p_values",
    "paired_bootstrap",
    "randomization_test",
]
