from __future__ import annotations

import itertools

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from sttau.metrics import area_under_risk_coverage, risk_coverage_curve

answers = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2)), min_size=1, max_size=6)


@given(answers)
def test_the_curve_is_the_mean_over_all_orders_of_equally_uncertain_predictions(pairs: list[tuple[int, int]]) -> None:
    orders = [
        order
        for order in itertools.permutations(pairs)
        if all(first[0] <= second[0] for first, second in itertools.pairwise(order))
    ]
    size = len(pairs)
    want = [sum(sum(loss for _, loss in order[:k]) / k for order in orders) / len(orders) for k in range(1, size + 1)]
    doubt, losses = ([float(pair[side]) for pair in pairs] for side in (0, 1))
    curve = risk_coverage_curve(doubt, losses)
    assert curve.risk.tolist() == pytest.approx(want)
    assert curve.coverage.tolist() == pytest.approx([k / size for k in range(1, size + 1)])
    assert area_under_risk_coverage(doubt, losses) == pytest.approx(sum(want) / size)


@given(answers)
def test_no_order_beats_the_one_by_loss_and_none_is_worse_than_its_reverse(pairs: list[tuple[int, int]]) -> None:
    doubt, losses = (torch.tensor([float(pair[side]) for pair in pairs]) for side in (0, 1))
    assert area_under_risk_coverage(doubt, losses, excess=True) >= -1e-12
    assert area_under_risk_coverage(losses, losses, excess=True) == 0
    assert area_under_risk_coverage(doubt, losses) <= area_under_risk_coverage(-losses, losses) + 1e-12


@given(answers)
def test_the_area_depends_on_the_order_of_doubt_alone(pairs: list[tuple[int, int]]) -> None:
    doubt, losses = (torch.tensor([float(pair[side]) for pair in pairs]) for side in (0, 1))
    area = area_under_risk_coverage(doubt, losses)
    assert area_under_risk_coverage((doubt / 2).exp(), losses) == pytest.approx(area)
    order = torch.randperm(len(doubt))
    assert area_under_risk_coverage(doubt[order], losses[order]) == pytest.approx(area)


def test_constant_uncertainty_leaves_the_error_rate_at_every_coverage() -> None:
    curve = risk_coverage_curve([0.5] * 4, [1, 0, 0, 0])
    assert curve.risk.tolist() == [0.25] * 4
    assert curve.area == 0.25


def test_one_answer_is_enough() -> None:
    assert area_under_risk_coverage([0.3], [1.0]) == 1


@pytest.mark.parametrize(
    ("uncertainty", "losses", "message"),
    [
        ([], [], "uncertainty must"),
        ([1.0], [float("nan")], "losses holds NaN"),
        ([1.0, 2.0], [0.0], "the same length"),
    ],
)
def test_bad_input_is_refused_by_name(uncertainty: list[float], losses: list[float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        risk_coverage_curve(uncertainty, losses)
