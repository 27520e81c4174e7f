"""Recurrent networks that know when they do not know."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from sttau.version import __version__

if TYPE_CHECKING:
    from sttau import (
        automata,
        calibration,
        conformal,
        data,
        errors,
        export,
        hub,
        inference,
        jobs,
        layers,
        methods,
        metrics,
        models,
        ood,
        rl,
        sklearn,
        training,
    )
    from sttau.calibration.calibrate import calibrate
    from sttau.comparison import compare
    from sttau.inference.forecast import Forecast, forecast  # functions named like their modules: mypy needs the module
    from sttau.inference.predict import predict
    from sttau.inference.prediction import Prediction, RegressionPrediction
    from sttau.inference.stream import Stream
    from sttau.layers import (
        BayesLSTM,
        StateRegularizedGRU,
        StateRegularizedLSTM,
        STTauGRU,
        STTauLSTM,
        VariationalDropoutLSTM,
    )
    from sttau.methods.create import create_model
    from sttau.models import DeepEnsemble, SequenceClassifier, SequenceRegressor, load
    from sttau.training import fit

# Everything is imported on first use, so that ``sttau --help`` does not wait for torch.
_NAMES = {
    "calibration": ("calibrate",),
    "comparison": ("compare",),
    "inference": ("Forecast", "Prediction", "RegressionPrediction", "Stream", "forecast", "predict"),
    "layers": (
        "BayesLSTM",
        "STTauGRU",
        "STTauLSTM",
        "StateRegularizedGRU",
        "StateRegularizedLSTM",
        "VariationalDropoutLSTM",
    ),
    "methods": ("create_model",),
    "models": ("DeepEnsemble", "SequenceClassifier", "SequenceRegressor", "load"),
    "training": ("fit",),
}
_HOMES = {name: home for home, names in _NAMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        value = getattr(import_module(f"sttau.{_HOMES[name]}"), name)
    elif name in __all__:
        value = import_module(f"sttau.{name}")
    else:
        raise AttributeError(f"module 'sttau' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return list(__all__)


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
    "Stream",
    "VariationalDropoutLSTM",
    "__version__",
    "automata",
    "calibrate",
    "calibration",
    "compare",
    "conformal",
    "create_model",
    "data",
    "errors",
    "export",
    "fit",
    "forecast",
    "hub",
    "inference",
    "jobs",
    "layers",
    "load",
    "methods",
    "metrics",
    "models",
    "ood",
    "predict",
    "rl",
    "sklearn",
    "training",
]
