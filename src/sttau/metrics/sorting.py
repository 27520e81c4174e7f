"""Weighted cumulative sums over rows in the order of their scores, for areas under curves."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor


class SortedGroups(NamedTuple):
    """Rows in the order of their scores, in groups of equal scores.

    Attributes:
        order: (rows,) indices that sort the scores.
        ends: (groups,) position of the last row of each group; None if all scores differ.
    """

    order: Tensor
    ends: Tensor | None

    @classmethod
    def by(cls, scores: Tensor) -> SortedGroups:
        """Sort (rows,) scores."""
        order = scores.argsort()
        _, sizes = torch.unique_consecutive(scores[order], return_counts=True)
        return cls(order, None if len(sizes) == len(order) else sizes.cumsum(0) - 1)

    def cumulate(self, values: Tensor) -> Tensor:
        """Return (rounds, groups) sums of (rounds, rows) values over each group and all groups before it."""
        sums = _columns(values, self.order).cumsum(1)
        return sums if self.ends is None else _columns(sums, self.ends)


def increments(cumulated: Tensor) -> Tensor:
    """Return the contribution of each group to its cumulated sums."""
    return cumulated.diff(dim=1, prepend=torch.zeros_like(cumulated[:, :1]))


def _columns(values: Tensor, columns: Tensor) -> Tensor:
    """Select columns of a matrix; NumPy is several times faster than PyTorch here."""
    return torch.from_numpy(values.numpy().take(columns.numpy(), axis=1))
