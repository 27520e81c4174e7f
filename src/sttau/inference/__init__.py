"""From a trained model to predictions with uncertainty."""

from sttau.inference.features import features
from sttau.inference.forecast import Forecast, forecast
from sttau.inference.predict import predict
from sttau.inference.prediction import Prediction, RegressionPrediction, entropy
from sttau.inference.stream import Stream

__all__ = [
    "Forecast",
    "Prediction",
    "RegressionPrediction",
    "Stream",
    "entropy",
    "features",
    "forecast",
    "predict",
]
