"""From a trained model to predictions with uncertainty."""

from sttau.inference.predict import Inference, Prediction, RegressionPrediction, entropy, predict
from sttau.inference.validation import validation

__all__ = ["Inference", "Prediction", "RegressionPrediction", "entropy", "predict", "validation"]
