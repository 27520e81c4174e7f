"""The classifier in scikit-learn's own checks and tools; what both estimators share is tested here too."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import sttau
from sttau.errors import ModelFileError
from sttau.methods import METHODS
from sttau.sklearn import STTauClassifier, STTauRegressor

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore:validation_fraction"),
]

QUICK: dict[str, Any] = {"hidden_size": 8, "updates": 20, "learning_rate": 0.08, "samples": 4}
SMALL: dict[str, Any] = QUICK | {"updates": 5, "random_state": 0}


@parametrize_with_checks([STTauClassifier(**QUICK)])  # type: ignore[untyped-decorator]
def test_every_check_of_scikit_learn_passes(estimator: Any, check: Any) -> None:
    check(estimator)


def waves(count: int = 60, steps: int = 12, features: int = 2, seed: int = 0) -> tuple[Any, Any]:
    """Series of two classes that differ in the level of the first feature."""
    generator = np.random.default_rng(seed)
    y = np.arange(count) % 2
    X = generator.normal(size=(count, steps, features))
    X[:, :, 0] += 3 * y[:, None]
    return X, np.array(["low", "high"])[y]


@pytest.mark.parametrize("method", METHODS)
def test_a_prediction_is_the_same_alone_and_in_a_batch_with_every_method(method: str) -> None:
    X, y = waves(30)
    classifier = STTauClassifier(method, **SMALL).fit(X, y)
    whole = classifier.predict_proba(X)
    alone = np.concatenate([classifier.predict_proba(X[row : row + 1]) for row in range(len(X))])
    np.testing.assert_allclose(alone, whole, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(whole.sum(1), 1, rtol=1e-12)


def test_it_learns_labels_of_text_and_reports_uncertainty() -> None:
    X, y = waves()
    classifier = STTauClassifier(**QUICK, random_state=0).fit(X, y)
    assert classifier.score(*waves(seed=1)) > 0.9
    assert classifier.classes_.tolist() == ["high", "low"]
    total, aleatoric, epistemic = (
        classifier.predict_uncertainty(X, kind) for kind in ("total", "aleatoric", "epistemic")
    )
    np.testing.assert_allclose(aleatoric + epistemic, total, atol=1e-12)
    p = classifier.predict_proba(X)
    np.testing.assert_allclose(total, -(p * np.log2(p)).sum(1), atol=1e-9)
    with pytest.raises(ValueError, match="kind must be"):
        classifier.predict_uncertainty(X, "model")  # type: ignore[arg-type]


def test_the_forms_of_the_same_series_give_the_same_model() -> None:
    X, y = waves()
    expected = STTauClassifier(**SMALL).fit(X, y).predict_proba(X)
    other = X.swapaxes(1, 2)
    first = STTauClassifier(**SMALL, layout="channels_first")
    np.testing.assert_array_equal(first.fit(other, y).predict_proba(other), expected)
    np.testing.assert_array_equal(first.fit(list(other), y).predict_proba(list(other)), expected)
    np.testing.assert_array_equal(STTauClassifier(**SMALL).fit(torch.tensor(X), y).predict_proba(list(X)), expected)
    flat = X[:, :, 0]
    expected = STTauClassifier(**SMALL).fit(flat, y).predict_proba(flat)
    np.testing.assert_array_equal(STTauClassifier(**SMALL).fit(flat[:, :, None], y).predict_proba(flat), expected)


def test_series_of_unequal_length_are_read_to_their_ends() -> None:
    X, y = waves()
    series = [part[: 5 + row % 7] for row, part in enumerate(X)]
    classifier = STTauClassifier(**QUICK, random_state=0).fit(series, y)
    assert classifier.score(series, y) > 0.9
    np.testing.assert_allclose(classifier.predict_proba(series)[:1], classifier.predict_proba(series[:1]), rtol=1e-12)
    assert cross_val_score(classifier, series, y, cv=2).min() > 0.8
    with pytest.raises(ValueError, match="3 features per step"):
        classifier.predict(np.zeros((2, 5, 3)))


def test_missing_values_are_refused_unless_a_setting_allows_them() -> None:
    X, y = waves()
    X[::3, 2, 1] = np.nan
    X[1, -2:] = np.nan
    with pytest.raises(ValueError, match="NaN"):
        STTauClassifier(**SMALL).fit(X, y)
    classifier = STTauClassifier(**SMALL, settings={"missing": "mask"}).fit(X, y)
    assert np.isfinite(classifier.predict_proba(X)).all()


def test_zero_weights_remove_and_integer_weights_repeat_series() -> None:
    X, y = waves()
    weights = np.arange(len(X)) % 3
    weighted = STTauClassifier(**SMALL).fit(X, y, sample_weight=weights)
    order = np.random.default_rng(0).permutation(weights.sum())
    repeated = STTauClassifier(**SMALL).fit(X.repeat(weights, 0)[order], y.repeat(weights)[order])
    np.testing.assert_array_equal(weighted.predict_proba(X), repeated.predict_proba(X))


def test_a_class_weight_moves_predictions_to_that_class() -> None:
    X, y = waves()
    X = np.random.default_rng(0).normal(size=X.shape)  # nothing to learn but the frequency of classes
    shares = [
        (STTauClassifier(**QUICK, random_state=0, class_weight={"low": weight}).fit(X, y).predict(X) == "low").mean()
        for weight in (0.2, 5.0)
    ]
    assert shares[0] < 0.2 < 0.8 < shares[1]
    with pytest.raises(ValueError, match="class_weight names"):
        STTauClassifier(**SMALL, class_weight={"middle": 1.0}).fit(X, y)


def test_a_warm_start_continues_from_the_last_weights() -> None:
    X, y = waves()
    classifier = STTauClassifier(**SMALL, warm_start=True).fit(X, y)
    first = classifier.loss_curve_
    before = classifier.model_
    classifier.fit(X, y)
    assert classifier.loss_curve_[0] < first[0]
    assert len(classifier.loss_curve_) == classifier.n_iter_ == 5
    assert before is not classifier.model_
    with pytest.raises(ValueError, match="same classes"):
        classifier.fit(X, np.where(y == "low", "lower", y))
    fresh = classifier.set_params(warm_start=False).fit(X, y)
    assert fresh.loss_curve_ == first


def test_the_tools_of_scikit_learn_work_with_three_dimensional_data() -> None:
    X, y = waves()
    search = GridSearchCV(STTauClassifier(**SMALL), {"method": ["lstm", "st-tau"], "updates": [2, 20]}, cv=2).fit(X, y)
    assert search.best_params_["updates"] == 20
    calibrated = CalibratedClassifierCV(STTauClassifier(**SMALL | {"updates": 20}), cv=2).fit(X, y)
    assert calibrated.predict_proba(X).shape == (60, 2)
    pipeline = make_pipeline(StandardScaler(), STTauClassifier(**SMALL | {"updates": 20}))
    assert cross_val_score(pipeline, X[:, :, 0], y, cv=2).min() > 0.8
    assert clone(search.best_estimator_).get_params() == search.best_estimator_.get_params()


@pytest.mark.parametrize("labels", [["low", "high"], [3, 7], [0.0, 1.0], [False, True]])
def test_files_and_pickles_give_the_same_predictions(labels: list[Any], tmp_path: Path) -> None:
    X, y = waves(30)
    y = np.array(labels)[(y == "high").astype(int)]
    weights = {labels[0]: 2.0}
    classifier = STTauClassifier(**SMALL, class_weight=weights, settings={"patience": 3, "callbacks": print}).fit(X, y)
    expected, predicted = classifier.predict_proba(X), classifier.predict(X)
    joblib.dump(classifier, tmp_path / "classifier.joblib")
    copies = [joblib.load(tmp_path / "classifier.joblib"), pickle.loads(pickle.dumps(classifier))]
    loaded = STTauClassifier.load(classifier.save(tmp_path / "model.safetensors"))
    for copy in (*copies, loaded):
        np.testing.assert_array_equal(copy.predict_proba(X), expected)
        assert copy.predict(X).dtype == predicted.dtype
        assert (copy.predict(X) == predicted).all()
    assert loaded.get_params() == classifier.get_params() | {"settings": {"patience": 3}}


def test_files_and_models_go_both_ways(tmp_path: Path) -> None:
    X, y = waves(30)
    classifier = STTauClassifier(**SMALL).fit(X, y)
    path = classifier.save(tmp_path / "model.safetensors")
    p = sttau.predict(sttau.load(path), X, samples=4, seed=0)
    np.testing.assert_allclose(p.mean.numpy(), classifier.predict_proba(X.astype(np.float32)), atol=1e-6)
    data = sttau.data.from_arrays(X, y)
    model = sttau.create_model(data, hidden_size=4)
    own = STTauClassifier.load(model.save(tmp_path / "own.safetensors"))
    assert set(own.predict(X)) <= {"low", "high"}
    with pytest.raises(ModelFileError, match="STTauRegressor is for regression"):
        STTauRegressor.load(path)


def test_the_mode_of_the_layer_is_told_apart_from_that_of_the_metric() -> None:
    X, y = waves(30)
    exact = {"cell": "gru", "mode": "exact", "readout": "state"}
    assert STTauClassifier(**SMALL, settings=exact).fit(X, y).model_.layer.mode == "exact"
    largest = STTauClassifier(**SMALL, settings={"metric": "error", "mode": "max"}).fit(X, y)
    assert largest.model_.layer.mode == "soft"
    with pytest.raises(ValueError, match="mode must be one of 'soft', 'hard', 'exact', 'deterministic', got 'most'"):
        STTauClassifier(**SMALL, settings={"mode": "most"}).fit(X, y)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"method": "transformer"}, "method must be one of"),
        ({"layout": "time_first"}, "layout must be"),
        ({"validation_fraction": 1.0}, "validation_fraction must be"),
        ({"settings": {"hidden_size": 4}}, "settings names hidden_size"),
        ({"settings": {"sample_weight": [1]}}, "sample_weight to fit"),
        ({"settings": {"stattes": 4}}, "stattes"),
        ({"class_weight": "equal"}, "class_weight must be"),
        ({"device": "cuda:99"}, "not available"),
    ],
)
def test_wrong_parameters_are_named(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        STTauClassifier(**SMALL | changes).fit(*waves(30))


def test_labels_of_one_class_and_arrays_of_four_dimensions_are_refused() -> None:
    X, y = waves(30)
    with pytest.raises(ValueError, match="at least 2 classes"):
        STTauClassifier(**SMALL).fit(X, np.zeros(30))
    with pytest.raises(ValueError, match="4 dimensions"):
        STTauClassifier(**SMALL).fit(X[:, :, :, None], y)


def test_too_few_series_to_hold_any_out_are_trained_on_with_a_warning() -> None:
    X, y = waves(4)
    with pytest.warns(UserWarning, match="holds none"):
        assert STTauClassifier(**SMALL).fit(X, y).model_.decisions is None
