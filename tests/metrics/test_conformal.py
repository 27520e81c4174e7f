from __future__ import annotations

import pytest
import torch

from sttau.metrics.conformal import set_coverage, set_size
from sttau.metrics.rows import evaluate_rows, metric_rows


def test_coverage_and_size_are_means() -> None:
    covered, size = torch.tensor([1.0, 0.0, 1.0, 1.0]), torch.tensor([2, 0, 1, 3])
    assert set_coverage(covered, size) == 0.75
    assert set_size(covered, size) == 1.5
    assert evaluate_rows(metric_rows("sets", covered, size)) == {"set_coverage": 75.0, "set_size": 1.5}


def test_shapes_that_differ_are_refused() -> None:
    with pytest.raises(ValueError, match="one value per prediction"):
        set_size([1.0, 0.0], [1.0])
