"""The adapters for sktime, in sktime's own checks where it is installed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from sttau.sklearn import STTauClassifier

pytest.importorskip("sktime")

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]  # sktime's own warnings


@pytest.mark.parametrize("name", ["SktimeClassifier", "SktimeRegressor"])
def test_every_check_of_sktime_passes(name: str) -> None:
    from sktime.utils.estimator_checks import check_estimator

    from sttau.sklearn import sktime

    results: dict[str, Any] = check_estimator(getattr(sktime, name), raise_exceptions=False, verbose=False)
    assert results
    assert {check: result for check, result in results.items() if result != "PASSED"} == {}


def test_it_is_the_estimator_with_channels_first() -> None:
    from sttau.sklearn.sktime import SktimeClassifier

    generator = np.random.default_rng(0)
    X, y = generator.normal(size=(30, 2, 9)), np.arange(30) % 2
    own = STTauClassifier(hidden_size=4, updates=3, random_state=0)
    expected = own.fit(X.swapaxes(1, 2), y).predict_proba(X.swapaxes(1, 2))
    np.testing.assert_array_equal(SktimeClassifier(own).fit(X, y).predict_proba(X), expected)
    assert own.layout == "channels_last"
