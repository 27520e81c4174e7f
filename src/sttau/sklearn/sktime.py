"""The estimators with the interface of sktime, which must be installed."""

from __future__ import annotations

from typing import Any, ClassVar

from sklearn.base import clone
from sktime.classification.base import BaseClassifier
from sktime.regression.base import BaseRegressor

from sttau.sklearn.base import Array
from sttau.sklearn.classifier import STTauClassifier
from sttau.sklearn.regressor import STTauRegressor

_TAGS = {
    "X_inner_mtype": "df-list",  # numpy3D holds no series of unequal length
    "capability:multivariate": True,
    "capability:unequal_length": True,
    "capability:categorical_in_X": False,
    "authors": "The sttau authors",
    "maintainers": "The sttau authors",
}


class SktimeClassifier(BaseClassifier):
    """A classifier for sktime.

    Args:
        estimator: Estimator with its parameters, ``STTauClassifier()`` by default; it is not changed. Its ``layout`` is
            ``channels_first`` here, whatever it says.

    Attributes:
        estimator_: The fitted estimator.

    Example:
        >>> from sktime.datasets import load_unit_test
        >>> from sttau.sklearn import STTauClassifier
        >>> from sttau.sklearn.sktime import SktimeClassifier
        >>> X, y = load_unit_test(split="train", return_type="numpy3D")
        >>> SktimeClassifier(STTauClassifier(hidden_size=8, updates=5)).fit(X, y).predict_proba(X).shape
        (20, 2)
    """

    _tags: ClassVar[dict[str, Any]] = _TAGS | {"capability:predict_proba": True}
    estimator_: STTauClassifier

    def __init__(self, estimator: STTauClassifier | None = None) -> None:
        self.estimator = estimator
        super().__init__()

    def _fit(self, X: Any, y: Any) -> SktimeClassifier:
        estimator = STTauClassifier() if self.estimator is None else clone(self.estimator)
        self.estimator_ = estimator.set_params(layout="channels_first").fit(_as_arrays(X), y)
        return self

    def _predict(self, X: Any) -> Array:
        return self.estimator_.predict(_as_arrays(X))

    def _predict_proba(self, X: Any) -> Array:
        return self.estimator_.predict_proba(_as_arrays(X))

    @classmethod
    def get_test_params(cls, parameter_set: str = "default") -> list[dict[str, Any]]:
        """Return parameters for sktime's tests."""
        small: dict[str, Any] = {"hidden_size": 4, "updates": 3, "samples": 2, "random_state": 0}
        return [{"estimator": STTauClassifier(method, **small)} for method in ("st-tau", "gru")]


class SktimeRegressor(BaseRegressor):
    """A regressor for sktime.

    Args:
        estimator: Estimator with its parameters, ``STTauRegressor()`` by default; it is not changed. Its ``layout`` is
            ``channels_first`` here, whatever it says.

    Attributes:
        estimator_: The fitted estimator.

    Example:
        >>> from sktime.datasets import load_unit_test
        >>> from sttau.sklearn import STTauRegressor
        >>> from sttau.sklearn.sktime import SktimeRegressor
        >>> X, _ = load_unit_test(split="train", return_type="numpy3D")
        >>> SktimeRegressor(STTauRegressor(hidden_size=8, updates=5)).fit(X, X.mean((1, 2))).predict(X).shape
        (20,)
    """

    _tags: ClassVar[dict[str, Any]] = _TAGS
    estimator_: STTauRegressor

    def __init__(self, estimator: STTauRegressor | None = None) -> None:
        self.estimator = estimator
        super().__init__()

    def _fit(self, X: Any, y: Any) -> SktimeRegressor:
        estimator = STTauRegressor() if self.estimator is None else clone(self.estimator)
        self.estimator_ = estimator.set_params(layout="channels_first").fit(_as_arrays(X), y)
        return self

    def _predict(self, X: Any) -> Array:
        return self.estimator_.predict(_as_arrays(X))

    @classmethod
    def get_test_params(cls, parameter_set: str = "default") -> list[dict[str, Any]]:
        """Return parameters for sktime's tests."""
        small: dict[str, Any] = {"hidden_size": 4, "updates": 3, "samples": 2, "random_state": 0}
        return [{"estimator": STTauRegressor(method, **small)} for method in ("st-tau", "gru")]


def _as_arrays(frames: Any) -> list[Array]:
    """Return sktime's data frames, (time, features) each, as arrays (features, time)."""
    return [frame.to_numpy().T for frame in frames]
