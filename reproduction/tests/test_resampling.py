from __future__ import annotations

import pytest
import torch

from sttau_reproduction.resampling import mean_interval, resample_groups


def test_whole_groups_are_drawn() -> None:
    groups = torch.tensor([3, 1, 3, 2, 1, 3])
    weights = resample_groups(groups, resamples=500)
    for group in (1, 2, 3):
        assert weights[:, groups == group].std(1, correction=0).max() == 0
    each = torch.stack([weights[:, groups == group][:, 0] for group in (1, 2, 3)], 1)
    assert each.sum(1).eq(3).all()
    assert each.mean(0).tolist() == pytest.approx([1, 1, 1], abs=0.1)


def test_the_interval_over_single_rows_is_that_of_the_standard_error() -> None:
    values = torch.randn(2000, generator=torch.Generator().manual_seed(0)).exp()  # skewed, like losses
    found = mean_interval(values, torch.ones(2000), torch.arange(2000))
    mean, error = float(values.mean()), float(values.std()) / 2000**0.5
    assert found == pytest.approx((mean - 1.96 * error, mean + 1.96 * error), abs=error / 4)


def test_intervals_over_groups_are_wider_where_values_come_by_group() -> None:
    groups = torch.arange(50).repeat_interleave(40)
    values = torch.randn(50, generator=torch.Generator().manual_seed(0))[groups]
    ones = torch.ones(2000)
    widths = []
    for chosen in (groups, torch.arange(2000)):
        low, high = mean_interval(values, ones, chosen)
        widths.append(high - low)
    assert widths[0] / widths[1] == pytest.approx(40**0.5, rel=0.15)  # 50 values instead of 2,000


def test_sums_of_groups_give_the_same_interval_as_their_values() -> None:
    groups = torch.arange(90) // 20  # the last group is smaller
    values = torch.rand(90, generator=torch.Generator().manual_seed(0))
    sums, counts = (torch.zeros(5).index_add(0, groups, rows) for rows in (values, torch.ones(90)))
    whole = mean_interval(values, torch.ones(90), groups)
    assert mean_interval(sums, counts, torch.arange(5)) == pytest.approx(whole, rel=1e-6)  # float32 sums
