"""The estimators with the interface of aeon, which must be installed."""

from __future__ import annotations

from typing import Any, ClassVar

from aeon.classification.base import BaseClassifier
from aeon.regression.base import BaseRegressor
from sklearn.base import clone

from sttau.sklearn.base import Array
from sttau.sklearn.classifier import STTauClassifier
from sttau.sklearn.regressor import STTauRegressor

_TAGS = {
    "X_inner_type": ["np-list", "numpy3D"],
    "capability:multivariate": True,
    "capability:unequal_length": True,
    "algorithm_type": "deeplearning",
}


class AeonClassifier(BaseClassifier):
    """A classifier for aeon.

    Args:
        estimator: Estimator with its parameters, ``STTauClassifier()`` by default; it is not changed. Its ``layout`` is
            ``channels_first`` here, whatever it says.

    Attributes:
        estimator_: The fitted estimator.

    Example:
        >>> from aeon.datasets import load_unit_test
        >>> X, y = load_unit_test(split="train")
        >>> AeonClassifier(STTauClassifier(hidden_size=8, updates=5)).fit(X, y).predict_proba(X).shape
        (20, 2)
    """

    _tags: ClassVar[dict[str, Any]] = _TAGS
    estimator_: STTauClassifier

    def __init__(self, estimator: STTauClassifier | None = None) -> None:
        self.estimator = estimator
        super().__init__()

    def _fit(self, X: Any, y: Any) -> AeonClassifier:
        estimator = STTauClassifier() if self.estimator is None else clone(self.estimator)
        self.estimator_ = estimator.set_params(layout="channels_first").fit(X, y)
        return self

    def _predict(self, X: Any) -> Array:
        return self.estimator_.predict(X)

    def _predict_proba(self, X: Any) -> Array:
        return self.estimator_.predict_proba(X)

    @classmethod
    def _get_test_params(cls, parameter_set: str = "default") -> dict[str, Any]:
        return {"estimator": STTauClassifier(hidden_size=4, updates=3, samples=2, random_state=0)}


class AeonRegressor(BaseRegressor):
    """A regressor for aeon.

    Args:
        estimator: Estimator with its parameters, ``STTauRegressor()`` by default; it is not changed. Its ``layout`` is
            ``channels_first`` here, whatever it says.

    Attributes:
        estimator_: The fitted estimator.

    Example:
        >>> from aeon.datasets import load_unit_test
        >>> X, _ = load_unit_test(split="train")
        >>> AeonRegressor(STTauRegressor(hidden_size=8, updates=5)).fit(X, X.mean((1, 2))).predict(X).shape
        (20,)
    """

    _tags: ClassVar[dict[str, Any]] = _TAGS
    estimator_: STTauRegressor

    def __init__(self, estimator: STTauRegressor | None = None) -> None:
        self.estimator = estimator
        super().__init__()

    def _fit(self, X: Any, y: Any) -> AeonRegressor:
        estimator = STTauRegressor() if self.estimator is None else clone(self.estimator)
        self.estimator_ = estimator.set_params(layout="channels_first").fit(X, y)
        return self

    def _predict(self, X: Any) -> Array:
        return self.estimator_.predict(X)

    @classmethod
    def _get_test_params(cls, parameter_set: str = "default") -> dict[str, Any]:
        return {"estimator": STTauRegressor(hidden_size=4, updates=3, samples=2, random_state=0)}
