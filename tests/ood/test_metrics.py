from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from sttau.ood import detection

scores = st.lists(st.integers(-5, 5).map(float), min_size=1, max_size=30)


@given(scores, scores)
def test_auroc_is_the_share_of_pairs_in_the_right_order_with_ties_half(
    inside: list[float], outside: list[float]
) -> None:
    pairs = [1.0 if o > i else 0.5 if o == i else 0.0 for i in inside for o in outside]
    assert detection(inside, outside).auroc == pytest.approx(sum(pairs) / len(pairs))


def test_separated_scores_are_detected_and_equal_ones_are_not() -> None:
    perfect = detection(torch.zeros(5), torch.ones(4))
    assert (perfect.auroc, perfect.aupr) == (1.0, 1.0)
    blind = detection(torch.zeros(6), torch.zeros(2))
    assert (blind.auroc, blind.aupr) == (0.5, 0.25)


@pytest.mark.parametrize(
    ("inside", "outside", "message"),
    [
        ([], [1.0], "inside must"),
        ([1.0], [[1.0]], "outside must"),
        ([1.0], [float("nan")], "outside holds NaN"),
    ],
)
def test_bad_scores_are_refused_by_name(inside: list[float], outside: list[float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        detection(inside, outside)
