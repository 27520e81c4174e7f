"""From a trained model to predictions with uncertainty."""

from sttau.inference.features import features
from sttau.inference.forecast import Forecast, forecast
from sttau.inference.predict import Inference, Prediction, RegressionPrediction, entropy, predict
from sttau.inference.validation import validation

__all__ = [
    "Forecast",
    "Inference",
    "Prediction",
    "RegressionPrediction",
    "entropy",
    "features",
    "forecast",
    "predict",
    "validation",
]
