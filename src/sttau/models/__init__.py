"""Networks and ensembles of networks, and their saved form."""

from sttau.models.base import Chain, SequenceModel
from sttau.models.classifier import Head, SequenceClassifier
from sttau.models.criterion import focal_loss
from sttau.models.decisions import Decisions, Threshold
from sttau.models.ensemble import DeepEnsemble, Posterior
from sttau.models.heads import FixedLabels
from sttau.models.kept import KeptTensors
from sttau.models.predictor import Predictor, Task
from sttau.models.preprocessing import Missing, Observed, Preprocessing, TargetScaling
from sttau.models.regressor import Gaussian, SequenceRegressor
from sttau.models.saved import load

__all__ = [
    "Chain",
    "Decisions",
    "DeepEnsemble",
    "FixedLabels",
    "Gaussian",
    "Head",
    "KeptTensors",
    "Missing",
    "Observed",
    "Posterior",
    "Predictor",
    "Preprocessing",
    "SequenceClassifier",
    "SequenceModel",
    "SequenceRegressor",
    "TargetScaling",
    "Task",
    "Threshold",
    "focal_loss",
    "load",
]
