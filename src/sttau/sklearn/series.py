"""What estimators take as ``X``: arrays, data frames, or lists of series of unequal length."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from sklearn.utils.validation import check_array, validate_data

from sttau.data import SequenceDataset, from_arrays

Array = npt.NDArray[Any]


def is_list_of_series(X: Any) -> bool:
    """Whether ``X`` is a list of arrays, or of nested lists of unequal length; else it is one array.

    Example:
        >>> is_list_of_series([[1.0, 2.0], [3.0]]), is_list_of_series([[1.0, 2.0], [3.0, 4.0]])
        (True, False)
    """
    if isinstance(X, np.ndarray):
        return X.ndim == 1 and X.dtype == object and len(X) > 0 and np.ndim(X[0]) > 0
    if not isinstance(X, (list, tuple)) or not X:
        return False
    if all(isinstance(part, (np.ndarray, torch.Tensor)) and part.ndim in (1, 2) for part in X):
        return True
    return all(isinstance(part, (list, tuple)) for part in X) and len({len(part) for part in X}) > 1


def check_series(estimator: Any, X: Any, *, channels_first: bool, allow_nan: bool, reset: bool) -> Any:
    """Return ``X`` as :func:`sttau.data.from_arrays` takes it, after the checks that scikit-learn expects.

    Args:
        estimator: Estimator that reads it; ``n_features_in_`` is set in fit and compared in predict.
        X: (series, time) of one feature, (series, time, features), or a list of (time,) or (time, features).
        channels_first: Whether features come before time.
        allow_nan: Whether values may be missing.
        reset: Whether this is the data of fit.
    """
    if is_list_of_series(X):
        parts = [part.detach().cpu().numpy() if isinstance(part, torch.Tensor) else np.asarray(part) for part in X]
        _set_features(estimator, parts[0].shape[0 if channels_first else 1] if parts[0].ndim == 2 else 1, reset)
        return [np.asarray(part, dtype=np.float64) if part.dtype.kind in "biuf" else part for part in parts]
    if isinstance(X, torch.Tensor):
        X = X.detach().cpu().numpy()
    checks: dict[str, Any] = {
        "dtype": "numeric",
        "allow_nd": True,
        "ensure_all_finite": "allow-nan" if allow_nan else True,
        "ensure_min_samples": 2 if reset else 1,
    }
    X = X if hasattr(X, "ndim") else np.asarray(X)
    if X.ndim == 2 and (reset or getattr(estimator, "reads_2d_", False)):
        values = validate_data(estimator, X, reset=reset, **checks)
        if reset:
            estimator.reads_2d_ = True
    else:
        values = check_array(X, estimator=estimator, **checks)
        features = 1 if values.ndim == 2 else values.shape[1 if channels_first else 2]
        _set_features(estimator, features, reset)
    if values.ndim not in (2, 3):
        raise ValueError(f"X has {values.ndim} dimensions; expected (series, time) or (series, time, features)")
    return values.astype(np.float64, copy=False)


def _set_features(estimator: Any, features: int, reset: bool) -> None:
    """Keep, or compare, the number of features per step; with 2-D data scikit-learn counts steps as features."""
    if reset:
        estimator.n_features_in_, estimator.reads_2d_ = features, False
        if hasattr(estimator, "feature_names_in_"):
            del estimator.feature_names_in_
        return
    expected = 1 if estimator.reads_2d_ else estimator.n_features_in_
    if features != expected:
        raise ValueError(
            f"X has {features} features per step, but {type(estimator).__name__} is expecting {expected} features as "
            "input; for arrays (series, features, time), set layout='channels_first'"
        )


def as_dataset(
    X: Any, labels: Array | None, *, channels_first: bool, allow_nan: bool, class_names: tuple[str, ...] = ()
) -> SequenceDataset:
    """Return checked series, with positions of classes or with values, as a data set.

    Args:
        X: Result of :func:`check_series`.
        labels: (series,) positions in ``class_names``, or values; None for prediction.
        channels_first: Whether features come before time.
        allow_nan: Whether values may be missing. Steps at the end of a series where all are missing are cut off.
        class_names: Name of each class; empty for regression.
    """
    is_list = isinstance(X, list)
    steps = None
    if not is_list and not np.isnan(X).any():
        steps = np.full(len(X), X.shape[1 if X.ndim == 2 or not channels_first else 2])
    return from_arrays(
        X,
        np.zeros(len(X), dtype=np.int64 if class_names else np.float64) if labels is None else labels,
        steps,
        channels_first=channels_first,
        task="classification" if class_names else "regression",
        class_names=class_names,
        missing="keep" if allow_nan else None,
        name="X",
    )
