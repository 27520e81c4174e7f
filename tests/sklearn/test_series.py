"""Forms of ``X``."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from sttau.sklearn.series import as_dataset, is_list_of_series


@pytest.mark.parametrize(
    ("X", "expected"),
    [
        ([np.zeros(3), np.zeros(4)], True),
        ([np.zeros((3, 2)), np.zeros((3, 2))], True),
        ([[1.0, 2.0], [3.0]], True),
        ([[1.0, 2.0], [3.0, 4.0]], False),
        (np.zeros((2, 3)), False),
        (np.array([np.zeros(3), np.zeros(4)], dtype=object), True),
        ([1.0, 2.0], False),
        ([], False),
    ],
)
def test_lists_of_arrays_and_unequal_lists_are_series(X: Any, expected: bool) -> None:
    assert is_list_of_series(X) == expected


def test_zeros_at_the_end_of_an_array_are_values_and_missing_steps_are_not_part_of_a_series() -> None:
    X = np.array([[1.0, 2.0, 0.0, 0.0, 0.0], [1.0, 2.0, 3.0, 4.0, 5.0]])
    data = as_dataset(X, np.array([0.5, 1.5]), channels_first=False, allow_nan=False)
    assert data.lengths.tolist() == [5, 5]
    X[0, 2:] = np.nan
    assert as_dataset(X, None, channels_first=False, allow_nan=True).lengths.tolist() == [2, 5]
