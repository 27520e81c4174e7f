"""Recurrent networks that know when they do not know."""

from sttau import automata, calibration, data, ood, training
from sttau.inference import Prediction, RegressionPrediction, predict
from sttau.layers import StateRegularizedGRU, StateRegularizedLSTM, STTauGRU, STTauLSTM
from sttau.models import SequenceClassifier, SequenceRegressor, load

__all__ = [
    "Prediction",
    "RegressionPrediction",
    "STTauGRU",
    "STTauLSTM",
    "SequenceClassifier",
    "SequenceRegressor",
    "StateRegularizedGRU",
    "StateRegularizedLSTM",
    "automata",
    "calibration",
    "data",
    "load",
    "ood",
    "predict",
    "training",
]
__version__ = "0.1.0"
