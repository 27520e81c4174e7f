"""OOD scores of predictions. For all of them, larger means more probably out-of-distribution.

Each takes a :class:`~sttau.Prediction`, or probabilities, (predictions, classes) or (samples, predictions, classes),
and returns one score per prediction.
"""

from sttau.ood.scores.entropy import entropy_score
from sttau.ood.scores.max_probability import max_probability_score
from sttau.ood.scores.mutual_information import mutual_information_score
from sttau.ood.scores.registry import SCORES
from sttau.ood.scores.variance import variance_score

__all__ = ["SCORES", "entropy_score", "max_probability_score", "mutual_information_score", "variance_score"]
