"""Recurrent networks that know when they do not know."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from sttau import calibration, data, inference, layers, methods, metrics, models, ood, training
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
from sttau.training import fit
from sttau.version import __version__

if TYPE_CHECKING:
    from sttau import automata, rl

_LAZY = ("automata", "rl")  # they load networkx and gymnasium


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return import_module(f"sttau.{name}")
    raise AttributeError(f"module 'sttau' has no attribute {name!r}")


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
    "fit",
    "forecast",
    "inference",
    "layers",
    "load",
    "methods",
    "metrics",
    "models",
    "ood",
    "predict",
    "rl",
    "training",
]
