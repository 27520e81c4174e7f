"""Calibration: is a probability of 0.9 right nine times out of ten?"""

from sttau.calibration.intervals import Interval, bootstrap_interval
from sttau.calibration.metrics import (
    BrierDecomposition,
    ReliabilityCurve,
    brier_score,
    calibration_error,
    classwise_calibration_error,
    decompose_brier,
    negative_log_likelihood,
    prediction_error,
    reliability_curve,
)
from sttau.calibration.regression import (
    IntervalCoverage,
    PITHistogram,
    central_interval,
    gaussian_crps,
    gaussian_nll,
    interval_coverage,
    mean_squared_error,
    pit_histogram,
    pit_values,
    sample_crps,
)
from sttau.calibration.scaling import (
    IsotonicScaling,
    Scaling,
    TemperatureScaling,
    VectorScaling,
    restore_scaling,
    to_logits,
)
from sttau.calibration.significance import Comparison, paired_bootstrap, randomization_test

__all__ = [
    "BrierDecomposition",
    "Comparison",
    "Interval",
    "IntervalCoverage",
    "IsotonicScaling",
    "PITHistogram",
    "ReliabilityCurve",
    "Scaling",
    "TemperatureScaling",
    "VectorScaling",
    "bootstrap_interval",
    "brier_score",
    "calibration_error",
    "central_interval",
    "classwise_calibration_error",
    "decompose_brier",
    "gaussian_crps",
    "gaussian_nll",
    "interval_coverage",
    "mean_squared_error",
    "negative_log_likelihood",
    "paired_bootstrap",
    "pit_histogram",
    "pit_values",
    "prediction_error",
    "randomization_test",
    "reliability_curve",
    "restore_scaling",
    "sample_crps",
    "to_logits",
]
