"""Out-of-distribution detection: does the model notice input it has never seen the like of?"""

from sttau.ood.density import FeatureDistance
from sttau.ood.metrics import Detection, detection
from sttau.ood.scores import SCORES, entropy_score, max_probability_score, mutual_information_score, variance_score
from sttau.ood.selection import RiskCoverageCurve, area_under_risk_coverage, risk_coverage_curve

__all__ = [
    "SCORES",
    "Detection",
    "FeatureDistance",
    "RiskCoverageCurve",
    "area_under_risk_coverage",
    "detection",
    "entropy_score",
    "max_probability_score",
    "mutual_information_score",
    "risk_coverage_curve",
    "variance_score",
]
