"""OOD detectors, one file each; see :class:`sttau.ood.Detector` for their interface."""

from sttau.ood.detectors.energy import Energy
from sttau.ood.detectors.knn import KNN
from sttau.ood.detectors.length import Length
from sttau.ood.detectors.mahalanobis import Mahalanobis
from sttau.ood.detectors.prediction_score import PredictionScore
from sttau.ood.detectors.react import ReAct
from sttau.ood.detectors.registry import DETECTORS, kept_detector, make_detector
from sttau.ood.detectors.token_density import TokenDensity
from sttau.ood.detectors.unknown_tokens import UnknownTokens
from sttau.ood.detectors.vim import ViM

__all__ = [
    "DETECTORS",
    "KNN",
    "Energy",
    "Length",
    "Mahalanobis",
    "PredictionScore",
    "ReAct",
    "TokenDensity",
    "UnknownTokens",
    "ViM",
    "kept_detector",
    "make_detector",
]
