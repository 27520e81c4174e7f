"""From a trained model to predictions with uncertainty."""

from sttau.inference.predict import Inference, Prediction, RegressionPrediction, entropy, predict

__all__ = ["Inference", "Prediction", "RegressionPrediction", "entropy", "predict"]
