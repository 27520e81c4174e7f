"""Recurrent networks that know when they do not know."""

from sttau import automata, calibration, data, ood, training
from sttau.comparison import compare
from sttau.inference import Prediction, RegressionPrediction, predict
from sttau.layers import (
    BayesLSTM,
    StateRegularizedGRU,
    StateRegularizedLSTM,
    STTauGRU,
    STTauLSTM,
    VariationalDropoutLSTM,
)
from sttau.models import DeepEnsemble, SequenceClassifier, SequenceRegressor, load
from sttau.version import __version__

__all__ = [
    "BayesLSTM",
    "DeepEnsemble",
    "Prediction",
    "RegressionPrediction",
    "STTauGRU",
    "STTauLSTM",
    "SequenceClassifier",
    "SequenceRegressor",
    "StateRegularizedGRU",
    "StateRegularizedLSTM",
    "VariationalDropoutLSTM",
    "__version__",
    "automata",
    "calibration",
    "compare",
    "data",
    "load",
    "ood",
    "predict",
    "training",
]
