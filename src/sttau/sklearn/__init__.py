"""Estimators with the interface of scikit-learn."""

from sttau.sklearn.classifier import STTauClassifier
from sttau.sklearn.regressor import STTauRegressor

__all__ = ["STTauClassifier", "STTauRegressor"]
