"""The classifier."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, check_X_y

from sttau.methods.defaults import HIDDEN_SIZE
from sttau.sklearn.base import DEFAULTS, Array, Layout, SequenceEstimator
from sttau.sklearn.weights import weigh_classes

if TYPE_CHECKING:
    from typing_extensions import Self


class STTauClassifier(ClassifierMixin, SequenceEstimator):
    """Classification of series with calibrated probabilities, as a scikit-learn estimator.

    The network is trained in float32 on all series except those held out, which select the best weights and calibrate
    the probabilities. On a CPU it predicts in float64, so that the prediction of a series does not depend on the batch
    that it is predicted with.

    The result does not depend on the order of the training series. Equal series are read as one with the sum of their
    weights, so a series of weight 2 and the same series twice give the same model, and so do weight 0 and no series.

    Args:
        method: ``st-tau``, ``lstm``, ``gru``, ``ensemble``, ``bayes``, ``dropout`` or ``state-regularized``.
        hidden_size: Size of the hidden state.
        updates: Number of batches to train on; ``epochs`` in ``settings`` replaces it.
        learning_rate: Learning rate.
        batch_size: Series per batch.
        validation_fraction: Share of the series that is held out; 0 to train on all, without calibration.
        samples: Monte Carlo samples per member.
        layout: ``channels_last`` for 3-D arrays (series, time, features), ``channels_first`` for (series, features,
            time), as in aeon and sktime; likewise for the arrays of a list.
        device: Device of the model, such as ``cpu`` or ``cuda``.
        random_state: Seed of the initial weights, the split, the batches and the samples.
        warm_start: Whether ``fit`` continues from the weights of the last ``fit``.
        class_weight: Weight of each class, or ``balanced`` for the inverse of its frequency.
        settings: Further options of :class:`sttau.training.TrainOptions`, such as ``patience``, and settings of the
            network (:func:`sttau.create_model`), such as ``num_states``, ``patch_size`` or ``missing``.

    Attributes:
        classes_: Class labels, in the order of the columns of ``predict_proba``.
        n_features_in_: Columns of a 2-D array, else features per step.
        model_: The trained model, for all functions of ``sttau``.
        n_iter_: Number of updates made.
        loss_curve_: Loss of each update.

    Example:
        >>> X = np.random.default_rng(0).normal(size=(60, 8))
        >>> y = np.where(X[:, 0] > 0, "up", "down")
        >>> classifier = STTauClassifier(hidden_size=8, updates=60, learning_rate=0.02, random_state=0).fit(X, y)
        >>> classifier.predict_proba(X).shape, classifier.score(X, y) > 0.8
        ((60, 2), True)
    """

    _task: ClassVar[str] = "classification"
    classes_: Array

    def __init__(
        self,
        method: str = "st-tau",
        *,
        hidden_size: int = HIDDEN_SIZE,
        updates: int = DEFAULTS.total_updates,
        learning_rate: float = DEFAULTS.learning_rate,
        batch_size: int = DEFAULTS.batch_size,
        validation_fraction: float = 0.2,
        samples: int = 10,
        layout: Layout = "channels_last",
        device: str = "cpu",
        random_state: Any = None,
        warm_start: bool = False,
        class_weight: Any = None,
        settings: dict[str, Any] | None = None,
    ) -> None:
        super().__init__(
            method,
            hidden_size=hidden_size,
            updates=updates,
            learning_rate=learning_rate,
            batch_size=batch_size,
            validation_fraction=validation_fraction,
            samples=samples,
            layout=layout,
            device=device,
            random_state=random_state,
            warm_start=warm_start,
            settings=settings,
        )
        self.class_weight = class_weight

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Train on labeled series.

        Args:
            X: (series, time) values of one feature; (series, time, features); or a list of arrays of unequal length,
                (time,) or (time, features) each.
            y: (series,) class labels.
            sample_weight: (series,) weights; 1 by default.
        """
        series = self._check_series(X, reset=True)
        rows = np.zeros((len(series), 1))
        _, y = check_X_y(rows, y, estimator=self)
        check_classification_targets(y)
        weights = _check_sample_weight(sample_weight, rows, dtype=np.float64, ensure_non_negative=True)
        classes, labels = np.unique(y, return_inverse=True)
        weights = weigh_classes(self.class_weight, classes, labels, weights)
        classes = np.unique(y[weights > 0])
        if len(classes) < 2:
            raise ValueError(f"a classifier needs at least 2 classes with weight in y, got {len(classes)} class")
        if self.warm_start and hasattr(self, "model_") and not np.array_equal(classes, self.classes_):
            raise ValueError(f"warm_start needs the same classes as before, {self.classes_}; y has {classes}")
        self.classes_ = classes
        kept = np.isin(y, classes)
        labels, weights = np.searchsorted(classes, np.where(kept, y, classes[0])), np.where(kept, weights, 0)
        self._train(self._dataset(series, labels, self._class_names()), weights)
        return self

    def predict_proba(self, X: Any) -> Array:
        """Return the probability of each class, (series, classes)."""
        probabilities: Array = self._predict(X).mean.numpy()
        return probabilities

    def predict(self, X: Any) -> Array:
        """Return the most probable class of each series, (series,)."""
        place = self.predict_proba(X).argmax(1)
        predicted: Array = self.classes_[place]
        return predicted

    def _class_names(self) -> tuple[str, ...]:
        return tuple(map(str, self.classes_.tolist()))

    def _params(self) -> dict[str, Any]:
        params = super()._params()
        if isinstance(self.class_weight, Mapping):  # JSON has no keys but text
            pairs = [[np.asarray(name).item(), float(weight)] for name, weight in self.class_weight.items()]
            params["class_weight"] = pairs
        return params

    def _fitted(self) -> dict[str, Any]:
        return super()._fitted() | {"classes": self.classes_.tolist(), "dtype": self.classes_.dtype.str}

    def _recall(self, fitted: dict[str, Any]) -> None:
        super()._recall(fitted)
        if isinstance(self.class_weight, list):
            self.class_weight = dict(self.class_weight)
        names = self.model_.class_names or tuple(map(str, range(self.model_.num_outputs)))
        self.classes_ = np.array(fitted.get("classes", names), dtype=fitted.get("dtype"))
