"""The regressor in scikit-learn's own checks and tools."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.model_selection import GridSearchCV
from sklearn.utils.estimator_checks import parametrize_with_checks

from sttau.errors import ModelFileError
from sttau.sklearn import STTauClassifier, STTauRegressor

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore:validation_fraction"),
]

# Patches of 5 steps: one of scikit-learn's checks expects R² > 0.5 where one of ten columns matters.
QUICK: dict[str, Any] = {
    "hidden_size": 8,
    "updates": 20,
    "learning_rate": 0.1,
    "samples": 4,
    "settings": {"patch_size": 5},
}


@parametrize_with_checks([STTauRegressor(**QUICK)])  # type: ignore[untyped-decorator]
def test_every_check_of_scikit_learn_passes(estimator: Any, check: Any) -> None:
    check(estimator)


def levels(count: int = 80, steps: int = 20) -> tuple[Any, Any]:
    """Series with one value each: their level in large units."""
    generator = np.random.default_rng(0)
    y = 1000 + 50 * generator.normal(size=count)
    return y[:, None, None] / 50 + 0.3 * generator.normal(size=(count, steps, 1)), y


def test_it_learns_values_in_their_own_units_with_their_variance() -> None:
    X, y = levels()
    regressor = STTauRegressor(**QUICK, random_state=0).fit(X, y)
    assert regressor.score(X, y) > 0.8
    total = regressor.predict_uncertainty(X)
    parts = regressor.predict_uncertainty(X, "aleatoric") + regressor.predict_uncertainty(X, "epistemic")
    np.testing.assert_allclose(parts, total, rtol=1e-12)
    assert 1 < np.sqrt(total).mean() < 50  # the targets' own standard deviation


def test_a_prediction_is_the_same_alone_and_in_a_batch() -> None:
    X, y = levels(30)
    regressor = STTauRegressor(**QUICK, random_state=0).fit(X, y)
    alone = np.concatenate([regressor.predict(X[row : row + 1]) for row in range(len(X))])
    np.testing.assert_allclose(alone, regressor.predict(X), rtol=1e-12)


def test_integer_weights_repeat_series() -> None:
    X, y = levels(30)
    weights = np.arange(len(X)) % 3
    weighted = STTauRegressor(**QUICK, random_state=0).fit(X, y, sample_weight=weights)
    repeated = STTauRegressor(**QUICK, random_state=0).fit(X.repeat(weights, 0), y.repeat(weights))
    np.testing.assert_array_equal(weighted.predict(X), repeated.predict(X))


def test_a_grid_search_finds_the_longer_training() -> None:
    X, y = levels()
    search = GridSearchCV(STTauRegressor(**QUICK, random_state=0), {"updates": [1, 20]}, cv=2).fit(X, y)
    assert search.best_params_ == {"updates": 20}


def test_files_and_pickles_give_the_same_predictions(tmp_path: Path) -> None:
    X, y = levels(30)
    regressor = STTauRegressor(**QUICK, random_state=0).fit(X, y)
    path = regressor.save(tmp_path / "model.safetensors")
    for copy in (pickle.loads(pickle.dumps(regressor)), STTauRegressor.load(path)):
        np.testing.assert_array_equal(copy.predict(X), regressor.predict(X))
    with pytest.raises(ModelFileError, match="STTauClassifier is for classification"):
        STTauClassifier.load(path)
