"""Metrics as pure functions, their definitions (``METRICS``), confidence intervals and significance tests.

All functions take tensors, arrays or lists, compute in float64 and return fractions, not percent. The accumulating
classes for torchmetrics are in :mod:`sttau.metrics.torchmetrics`.
"""

from sttau.metrics.brier import BrierDecomposition, brier_score, decompose_brier
from sttau.metrics.calibration_error import (
    ReliabilityCurve,
    calibration_error,
    classwise_calibration_error,
    reliability_curve,
)
from sttau.metrics.crps import gaussian_crps, sample_crps
from sttau.metrics.detection import Detection, aupr, auroc, detection
from sttau.metrics.earliness import EarlinessCurve, EarlyDecision, decide_early, earliness_curve
from sttau.metrics.error import prediction_error
from sttau.metrics.nll import gaussian_nll, negative_log_likelihood
from sttau.metrics.pit import PITHistogram, pit_histogram, pit_values
from sttau.metrics.prediction_intervals import IntervalCoverage, central_interval, interval_coverage, quantile
from sttau.metrics.record import Metric
from sttau.metrics.registry import METRICS
from sttau.metrics.risk_coverage import RiskCoverageCurve, area_under_risk_coverage, risk_coverage_curve
from sttau.metrics.squared_error import mean_absolute_error, mean_squared_error
from sttau.metrics.statistics import (
    Comparison,
    Interval,
    bootstrap_interval,
    calibration_error_by_chance,
    calibration_error_intervals,
    paired_bootstrap,
    randomization_test,
)

__all__ = [
    "METRICS",
    "BrierDecomposition",
    "Comparison",
    "Detection",
    "EarlinessCurve",
    "EarlyDecision",
    "Interval",
    "IntervalCoverage",
    "Metric",
    "PITHistogram",
    "ReliabilityCurve",
    "RiskCoverageCurve",
    "area_under_risk_coverage",
    "aupr",
    "auroc",
    "bootstrap_interval",
    "brier_score",
    "calibration_error",
    "calibration_error_by_chance",
    "calibration_error_intervals",
    "central_interval",
    "classwise_calibration_error",
    "decide_early",
    "decompose_brier",
    "detection",
    "earliness_curve",
    "gaussian_crps",
    "gaussian_nll",
    "interval_coverage",
    "mean_absolute_error",
    "mean_squared_error",
    "negative_log_likelihood",
    "paired_bootstrap",
    "pit_histogram",
    "pit_values",
    "prediction_error",
    "quantile",
    "randomization_test",
    "reliability_curve",
    "risk_coverage_curve",
    "sample_crps",
]
