from __future__ import annotations

import numpy as np
import pytest

from sttau.metrics import (
    mean_absolute_error,
    mean_squared_error,
)
from tests.metrics.data import mixture


def test_squared_error_averages_samples_first() -> None:
    x, _, y = mixture(2, 5, 20, 3)
    assert mean_squared_error(x, y) == pytest.approx(((x.numpy().mean(0) - y.numpy()) ** 2).mean())
    assert mean_squared_error([1.0, 3.0], [1.0, 1.0]) == 2


def test_absolute_error_averages_samples_first() -> None:
    x, _, y = mixture(2, 5, 20, 3)
    assert mean_absolute_error(x, y) == pytest.approx(np.abs(x.numpy().mean(0) - y.numpy()).mean())
    assert mean_absolute_error([1.0, 3.0], [1.0, 1.0]) == 1
