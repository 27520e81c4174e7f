"""Calibration: is a probability of 0.9 right nine times out of ten?"""

from sttau.calibration.metrics import (
    ReliabilityCurve,
    calibration_error,
    negative_log_likelihood,
    prediction_error,
    reliability_curve,
)

__all__ = [
    "ReliabilityCurve",
    "calibration_error",
    "negative_log_likelihood",
    "prediction_error",
    "reliability_curve",
]
