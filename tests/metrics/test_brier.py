from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from sttau.metrics import (
    brier_score,
    decompose_brier,
)
from tests.metrics.data import forecasts


@given(st.integers(0, 10_000), st.integers(2, 6), st.integers(1, 40), st.booleans())
def test_brier_score_equals_scikit_learn(seed: int, classes: int, size: int, tied: bool) -> None:
    from sklearn.metrics import brier_score_loss

    p, y = forecasts(seed, classes, size, tied)
    p = p / p.sum(-1, keepdim=True)
    truth = torch.nn.functional.one_hot(y, classes).numpy()
    want = sum(brier_score_loss(truth[:, k], p[:, k].numpy(), pos_label=1) for k in range(classes))
    assert brier_score(p, y) == pytest.approx(want, abs=1e-12)
    assert 0 <= want <= 2


@given(
    st.integers(0, 10_000),
    st.integers(2, 5),
    st.one_of(st.none(), st.integers(1, 12)),
    st.integers(1, 40),
    st.booleans(),
)
def test_the_parts_of_the_brier_score_add_up_for_every_grouping(
    seed: int, classes: int, bins: int | None, size: int, tied: bool
) -> None:
    p, y = forecasts(seed, classes, size, tied)
    parts = decompose_brier(p, y, bins)
    assert parts.brier == pytest.approx(brier_score(p, y), abs=1e-12)
    assert parts.reliability >= 0
    assert -1e-12 <= parts.resolution <= parts.uncertainty + 1e-12
    assert parts.within_variance >= 0
    if bins is None:
        assert abs(parts.within_variance) + abs(parts.within_covariance) < 1e-12


def test_the_parts_of_the_brier_score_are_murphys_where_forecasts_repeat() -> None:
    p = torch.tensor([[0.8, 0.2]] * 5 + [[0.3, 0.7]] * 3, dtype=torch.float64)
    y = torch.tensor([0, 0, 0, 0, 1, 1, 1, 0])
    parts = decompose_brier(p, y, bins=None)
    base = 5 / 8  # class 0; each term twice, once for either class
    assert parts.reliability == pytest.approx(2 * (3 / 8 * (0.3 - 1 / 3) ** 2))  # the first group is calibrated
    assert parts.resolution == pytest.approx(2 * (5 / 8 * (0.8 - base) ** 2 + 3 / 8 * (1 / 3 - base) ** 2))
    assert parts.uncertainty == pytest.approx(2 * base * (1 - base))


@given(st.integers(0, 10_000), st.integers(2, 4), st.integers(1, 12), st.integers(1, 40), st.booleans())
def test_groups_of_the_brier_score_share_the_predicted_class_and_the_bin_of_confidence(
    seed: int, classes: int, bins: int, size: int, tied: bool
) -> None:
    p, y = forecasts(seed, classes, size, tied)
    groups: dict[tuple[int, int], list[int]] = {}
    for i, row in enumerate(p.tolist()):
        number = next(n for n in range(bins) if max(row) <= (n + 1) / bins or n == bins - 1)
        groups.setdefault((row.index(max(row)), number), []).append(i)
    outcome = torch.nn.functional.one_hot(y, classes).double()
    reliability = (
        sum(len(g) * (p[g].mean(0) - outcome[g].mean(0)).square().sum().item() for g in groups.values()) / size
    )
    resolution = (
        sum(len(g) * (outcome[g].mean(0) - outcome.mean(0)).square().sum().item() for g in groups.values()) / size
    )
    parts = decompose_brier(p, y, bins)
    assert (parts.reliability, parts.resolution) == pytest.approx((reliability, resolution), abs=1e-12)


def test_the_inner_terms_are_needed_where_forecasts_only_resemble_each_other() -> None:
    p, y = forecasts(3, 3, 200, tied=False)
    parts = decompose_brier(p, y, bins=3)
    assert abs(parts.reliability - parts.resolution + parts.uncertainty - brier_score(p, y)) > 1e-3


def test_python_numbers_are_not_rounded_to_float32() -> None:
    assert brier_score([[0.1, 0.9]], [1]) == pytest.approx(0.02, abs=1e-15)
