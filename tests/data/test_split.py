from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from sttau.data.split import draw_uniform, hold_out, shuffle


def test_an_order_is_fixed_for_good() -> None:
    assert shuffle(8, seed=7).tolist() == [6, 3, 4, 0, 2, 7, 5, 1]


@given(st.integers(0, 200), st.integers(0, 2**32))
def test_an_order_holds_every_row_once(count: int, seed: int) -> None:
    assert sorted(shuffle(count, seed).tolist()) == list(range(count))


def test_draws_are_uniform_and_below_one() -> None:
    draws = draw_uniform(100_000, seed=1)
    assert 0 <= draws.min() < draws.max() < 1
    counts = np.histogram(draws, bins=10, range=(0, 1))[0]
    assert abs(counts - 10_000).max() < 5 * 100


@given(st.lists(st.integers(0, 4), min_size=1, max_size=300), st.integers(2, 10))
def test_held_out_rows_are_a_share_of_each_class_and_none_is_kept_too(labels: list[int], part: int) -> None:
    kept, held = hold_out(np.array(labels), part, seed=3)
    assert len(held) == len(labels) // part
    assert sorted([*kept.tolist(), *held.tolist()]) == list(range(len(labels)))
    for label in set(labels):
        share = sum(labels[row] == label for row in held.tolist())
        assert abs(share - labels.count(label) / part) <= 1
