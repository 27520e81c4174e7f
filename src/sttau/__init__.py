"""Recurrent networks that know when they do not know."""

from sttau import automata, calibration, data, metrics, ood, training
from sttau.compare import compare
from sttau.inference import Forecast, Prediction, RegressionPrediction, forecast, predict
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
    "Forecast",
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
    "forecast",
    "load",
    "metrics",
    "ood",
    "predict",
    "training",
]
