"""Out-of-distribution (OOD) detection: scores of predictions, and detectors fitted to training data.

Evaluate a score with :func:`sttau.metrics.detection`.
"""

from sttau.ood.detector import Detector
from sttau.ood.detectors import (
    DETECTORS,
    KNN,
    Energy,
    Length,
    Mahalanobis,
    PredictionScore,
    ReAct,
    TokenDensity,
    UnknownTokens,
    ViM,
    kept_detector,
    make_detector,
)
from sttau.ood.feature_distance import FeatureDistance
from sttau.ood.scores import SCORES, entropy_score, max_probability_score, mutual_information_score, variance_score

__all__ = [
    "DETECTORS",
    "KNN",
    "SCORES",
    "Detector",
    "Energy",
    "FeatureDistance",
    "Length",
    "Mahalanobis",
    "PredictionScore",
    "ReAct",
    "TokenDensity",
    "UnknownTokens",
    "ViM",
    "entropy_score",
    "kept_detector",
    "make_detector",
    "max_probability_score",
    "mutual_information_score",
    "variance_score",
]
