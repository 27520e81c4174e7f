"""Post-hoc calibration of class probabilities. The calibration errors of :mod:`sttau.metrics` are here too."""

from sttau.calibration.scaling import (
    IsotonicScaling,
    Scaling,
    TemperatureScaling,
    VectorScaling,
    restore_scaling,
    to_logits,
)
from sttau.metrics import ReliabilityCurve, calibration_error, classwise_calibration_error, reliability_curve

__all__ = [
    "IsotonicScaling",
    "ReliabilityCurve",
    "Scaling",
    "TemperatureScaling",
    "VectorScaling",
    "calibration_error",
    "classwise_calibration_error",
    "reliability_curve",
    "restore_scaling",
    "to_logits",
]
