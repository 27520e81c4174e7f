"""Out-of-distribution (OOD) detection: scores of predictions, and detectors fitted to training data.

Evaluate a score with :func:`sttau.metrics.detection`.
"""

from sttau.ood.feature_distance import FeatureDistance
from sttau.ood.scores import SCORES, entropy_score, max_probability_score, mutual_information_score, variance_score

__all__ = [
    "SCORES",
    "FeatureDistance",
    "entropy_score",
    "max_probability_score",
    "mutual_information_score",
    "variance_score",
]
