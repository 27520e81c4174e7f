"""Bootstrap of groups of rows that are not independent of each other: heartbeats of a patient, hours of a week."""

from __future__ import annotations

import torch
from torch import Tensor

RESAMPLES = 1000


def resample_groups(groups: Tensor, resamples: int = RESAMPLES, seed: int = 0) -> Tensor:
    """(resamples, rows) how often each row is drawn when whole groups are drawn with replacement.

    Example:
        >>> weights = resample_groups(torch.tensor([7, 7, 9]), resamples=4)
        >>> bool((weights[:, 0] == weights[:, 1]).all()), (weights[:, 0] + weights[:, 2]).tolist()
        (True, [2.0, 2.0, 2.0, 2.0])
    """
    names, place = groups.unique(return_inverse=True)
    drawn = torch.randint(len(names), (resamples, len(names)), generator=torch.Generator().manual_seed(seed))
    counts = torch.zeros(resamples, len(names), dtype=torch.float64)
    counts.scatter_add_(1, drawn, torch.ones_like(drawn, dtype=torch.float64))
    return counts[:, place]


def central_interval(values: Tensor) -> tuple[float, float]:
    """Ends of the interval that holds the middle 95 % of (resamples,) values.

    Example:
        >>> [round(end, 4) for end in central_interval(torch.arange(1001.0))]
        [25.0, 975.0]
    """
    low, high = values.double().quantile(torch.tensor([0.025, 0.975], dtype=torch.float64)).tolist()
    return low, high


def mean_interval(sums: Tensor, counts: Tensor, groups: Tensor, resamples: int = RESAMPLES) -> tuple[float, float]:
    """95 % bootstrap interval of a mean when whole groups are drawn with replacement.

    Args:
        sums: (rows,) sum of the values of each row.
        counts: (rows,) number of values of each row.
        groups: (rows,) number of the group of each row.
        resamples: Number of resamples; they are the same in every call, so that differences are paired.

    Example:
        >>> low, high = mean_interval(torch.tensor([3.0, 3.0, 6.0]), torch.tensor([1, 1, 2]), torch.arange(3))
        >>> (low, high)
        (3.0, 3.0)
    """
    weights = resample_groups(groups, resamples)
    return central_interval((weights @ sums.double()) / (weights @ counts.double()))
