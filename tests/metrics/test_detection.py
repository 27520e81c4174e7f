from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from sttau.metrics import Detection, detection

scores = st.lists(st.integers(-5, 5).map(float), min_size=1, max_size=30)


@given(scores, scores)
def test_auroc_is_the_share_of_pairs_in_the_right_order_with_ties_half(
    in_distribution: list[float], ood: list[float]
) -> None:
    pairs = [1.0 if o > i else 0.5 if o == i else 0.0 for i in in_distribution for o in ood]
    assert detection(in_distribution, ood).auroc == pytest.approx(sum(pairs) / len(pairs))


def test_separated_scores_are_detected_and_equal_ones_are_not() -> None:
    perfect = detection(torch.zeros(5), torch.ones(4))
    assert (perfect.auroc, perfect.aupr) == (1.0, 1.0)
    blind = detection(torch.zeros(6), torch.zeros(2))
    assert (blind.auroc, blind.aupr) == (0.5, 0.25)


@pytest.mark.parametrize(
    ("in_distribution", "ood", "message"),
    [
        ([], [1.0], "in_distribution must"),
        ([1.0], [[1.0]], "ood must"),
        ([1.0], [float("nan")], "ood holds NaN"),
    ],
)
def test_bad_scores_are_rejected_by_name(in_distribution: list[float], ood: list[float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        detection(in_distribution, ood)


def _oracle(positive: list[float], negative: list[float]) -> float:
    """The smallest false-positive rate among all thresholds that flag at least 95 % of the positives."""
    rates = []
    for threshold in positive:
        found = sum(score >= threshold for score in positive)
        if 100 * found >= 95 * len(positive):
            rates.append(sum(score >= threshold for score in negative) / len(negative))
    return min(rates)


@given(st.lists(st.integers(-5, 5).map(float), min_size=1, max_size=60), scores)
def test_fpr95_is_the_best_rate_over_all_thresholds_with_either_class_positive(
    in_distribution: list[float], ood: list[float]
) -> None:
    answer = detection(in_distribution, ood)
    assert answer.fpr95 == pytest.approx(_oracle(ood, in_distribution))
    assert answer.fpr95_in == pytest.approx(_oracle([-s for s in in_distribution], [-s for s in ood]))


def test_fpr95_takes_nineteen_of_twenty() -> None:
    ood = [float(n) for n in range(1, 21)]  # the lowest may be missed
    assert detection([1.5, 0.0], ood).fpr95 == 0
    assert detection([2.0, 0.0], ood).fpr95 == 0.5  # a tie with the threshold is flagged


@given(scores, scores)
def test_average_precision_is_the_sum_over_thresholds_with_either_class_positive(
    in_distribution: list[float], ood: list[float]
) -> None:
    def area(positive: list[float], negative: list[float]) -> float:
        total, before = 0.0, 0
        for threshold in sorted(set(positive), reverse=True):
            found = sum(s >= threshold for s in positive)
            total += (found - before) * found / (found + sum(s >= threshold for s in negative))
            before = found
        return total / len(positive)

    answer = detection(in_distribution, ood)
    assert answer.aupr == pytest.approx(area(ood, in_distribution))
    assert answer.aupr_in == pytest.approx(area([-s for s in in_distribution], [-s for s in ood]))


@given(scores, scores, st.sampled_from([torch.exp, torch.atan, lambda x: 3 * x - 7, lambda x: x**3]))
def test_detection_depends_on_the_order_of_scores_alone(
    in_distribution: list[float], ood: list[float], monotone: Callable[[torch.Tensor], torch.Tensor]
) -> None:
    low, high = torch.tensor(in_distribution, dtype=torch.float64), torch.tensor(ood, dtype=torch.float64)
    mapped = detection(monotone(low), monotone(high))
    assert mapped == detection(low, high)
    flipped = detection(-high, -low)  # the roles exchanged
    assert (flipped.auroc, flipped.aupr, flipped.fpr95) == pytest.approx(
        (mapped.auroc, mapped.aupr_in, mapped.fpr95_in)
    )


def test_one_score_on_either_side_is_enough() -> None:
    assert detection([0.0], [1.0]) == Detection(auroc=1, aupr=1, aupr_in=1, fpr95=0, fpr95_in=0)
    assert detection([1.0], [0.0]) == Detection(auroc=0, aupr=0.5, aupr_in=0.5, fpr95=1, fpr95_in=1)
