"""Forecast distributions of a probabilistic automaton: mixtures of one Gaussian per state, without samples."""

from __future__ import annotations

import math
from typing import NamedTuple, cast

import torch
from torch import Tensor

from sttau.models import Predictor, SequenceRegressor
from sttau_reproduction.power.data import Hours

_GRID = 20_001  # values between which a quantile is interpolated
_HOURS = 256  # that are computed at a time


class StateMixture(NamedTuple):
    """Mixtures that share their parts, on the scale on which the network predicts.

    Attributes:
        weights: (hours, k) distribution of the state.
        mean: (k,) mean in each state.
        variance: (k,) variance in each state.
    """

    weights: Tensor
    mean: Tensor
    variance: Tensor

    def nll(self, truth: Tensor) -> float:
        """Mean negative log-likelihood of (hours,) values.

        Example:
            >>> one = StateMixture(torch.ones(1, 1), torch.zeros(1), torch.ones(1))
            >>> round(one.nll(torch.zeros(1)), 4)
            0.9189
        """
        return float(self.nll_terms(truth).mean())

    def nll_terms(self, truth: Tensor) -> Tensor:
        """Return (hours,) terms whose mean is :meth:`nll`."""
        squares = (truth[:, None] - self.mean).square() / self.variance
        parts = self.weights.log() - 0.5 * (squares + (2 * math.pi * self.variance).log())
        return -parts.logsumexp(dim=1)

    def points(self, count: int) -> Tensor:
        """Points of equal probability, (count, hours), in ascending order.

        Example:
            >>> two = StateMixture(torch.tensor([[0.5, 0.5]]), torch.tensor([-3.0, 3.0]), torch.tensor([0.01, 0.01]))
            >>> [round(point, 1) for point in two.points(2).flatten().tolist()]
            [-3.0, 3.0]
        """
        share = (torch.arange(count, dtype=torch.float64) + 0.5) / count
        mean, deviation = self.mean.double(), self.variance.double().sqrt()
        low, high = float((mean - 10 * deviation).min()), float((mean + 10 * deviation).max())
        grid = torch.linspace(low, high, _GRID, dtype=torch.float64)
        below = torch.special.ndtr((grid - mean[:, None]) / deviation[:, None])  # (k, grid)
        parts = (_inverse(grid, weights @ below, share) for weights in self.weights.double().split(_HOURS))
        return torch.cat(list(parts)).T


def _inverse(grid: Tensor, distribution: Tensor, share: Tensor) -> Tensor:
    """Where each of (rows, grid) distribution functions reaches (count,) shares, by linear interpolation."""
    wanted = share.expand(len(distribution), -1).contiguous()
    place = torch.searchsorted(distribution, wanted).clamp(1, len(grid) - 1)
    low, high = distribution.gather(1, place - 1), distribution.gather(1, place)
    part = ((wanted - low) / (high - low).clamp_min(torch.finfo(low.dtype).tiny)).clamp(0, 1)
    return torch.lerp(grid[place - 1], grid[place], part)


@torch.no_grad()
def read_states(model: Predictor, hours: Hours) -> StateMixture:
    """Return what an automaton forecasts for each hour."""
    network = cast(SequenceRegressor, model.members[0])
    weights = network.state_distributions(hours.inputs, hours.lengths, per_step=False)
    mean, variance = network.state_outputs()
    assert variance is not None, "the network predicts a variance"
    return StateMixture(weights.double(), mean[:, 0].double(), variance[:, 0].double())
