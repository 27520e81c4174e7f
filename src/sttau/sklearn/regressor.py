"""The regressor."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.utils.validation import _check_sample_weight, check_X_y

from sttau.sklearn.base import Array, SequenceEstimator

if TYPE_CHECKING:
    from typing_extensions import Self


class STTauRegressor(RegressorMixin, SequenceEstimator):
    """Regression of one value per series with its variance, as a scikit-learn estimator.

    Training, float64 and weights are those of :class:`STTauClassifier`.

    Args:
        method: ``st-tau``, ``lstm``, ``gru``, ``ensemble``, ``bayes``, ``dropout`` or ``state-regularized``.
        hidden_size: Size of the hidden state.
        updates: Number of batches to train on; ``epochs`` in ``settings`` replaces it.
        learning_rate: Learning rate.
        batch_size: Series per batch.
        validation_fraction: Share of the series that is held out; 0 to train on all, without conformal intervals.
        samples: Monte Carlo samples per member.
        layout: ``channels_last`` for 3-D arrays (series, time, features), ``channels_first`` for (series, features,
            time), as in aeon and sktime; likewise for the arrays of a list.
        device: Device of the model, such as ``cpu`` or ``cuda``.
        random_state: Seed of the initial weights, the split, the batches and the samples.
        warm_start: Whether ``fit`` continues from the weights of the last ``fit``.
        settings: Further options of :class:`sttau.training.TrainOptions`, such as ``patience``, and settings of the
            network (:func:`sttau.create_model`), such as ``num_states``, ``patch_size`` or ``missing``.

    Attributes:
        n_features_in_: Columns of a 2-D array, else features per step.
        model_: The trained model, for all functions of ``sttau``.
        n_iter_: Number of updates made.
        loss_curve_: Loss of each update.

    Example:
        >>> X = np.random.default_rng(0).normal(size=(80, 6))
        >>> regressor = STTauRegressor(hidden_size=8, updates=80, learning_rate=0.03, random_state=0)
        >>> regressor.fit(X, X.sum(1)).score(X, X.sum(1)) > 0.5
        True
        >>> regressor.predict_uncertainty(X).shape
        (80,)
    """

    _task: ClassVar[str] = "regression"

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Train on series with values.

        Args:
            X: (series, time) values of one feature; (series, time, features); or a list of arrays of unequal length,
                (time,) or (time, features) each.
            y: (series,) values.
            sample_weight: (series,) weights; 1 by default.
        """
        series = self._check_series(X, reset=True)
        rows = np.zeros((len(series), 1))
        _, y = check_X_y(rows, y, y_numeric=True, estimator=self)
        weights = _check_sample_weight(sample_weight, rows, dtype=np.float64, ensure_non_negative=True)
        self._train(self._dataset(series, np.asarray(y, dtype=np.float64)), weights)
        return self

    def predict(self, X: Any) -> Array:
        """Return the mean of the predicted distribution of each series, (series,)."""
        mean: Array = self._predict(X).mean[:, 0].numpy()
        return mean
