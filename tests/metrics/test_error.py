from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from sttau.metrics import prediction_error
from tests.metrics.data import forecasts


@given(st.integers(0, 10_000), st.integers(2, 6), st.integers(1, 40), st.booleans())
def test_error_is_the_fraction_of_labels_that_are_not_the_most_probable_class(
    seed: int, classes: int, size: int, tied: bool
) -> None:
    p, y = forecasts(seed, classes, size, tied)
    wrong = [row.index(max(row)) != label for row, label in zip(p.tolist(), y.tolist(), strict=True)]
    assert prediction_error(p, y) == pytest.approx(sum(wrong) / size)


def test_bad_labels_are_rejected() -> None:
    with pytest.raises(ValueError, match="labels must be in 0 … 1"):
        prediction_error(torch.tensor([[0.5, 0.5]]), [2])
