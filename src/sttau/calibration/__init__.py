"""Post-hoc calibration of class probabilities. The calibration errors of :mod:`sttau.metrics` are here too."""

from sttau.calibration.calibrate import calibrate, decisions_for
from sttau.calibration.isotonic_scaling import IsotonicScaling
from sttau.calibration.logits import to_logits
from sttau.calibration.registry import SCALINGS, restore_scaling
from sttau.calibration.scaling import Scaling
from sttau.calibration.temperature_scaling import TemperatureScaling
from sttau.calibration.vector_scaling import VectorScaling
from sttau.metrics import ReliabilityCurve, calibration_error, classwise_calibration_error, reliability_curve

__all__ = [
    "SCALINGS",
    "IsotonicScaling",
    "ReliabilityCurve",
    "Scaling",
    "TemperatureScaling",
    "VectorScaling",
    "calibrate",
    "calibration_error",
    "classwise_calibration_error",
    "decisions_for",
    "reliability_curve",
    "restore_scaling",
    "to_logits",
]
