"""Forecast distributions of a probabilistic automaton: mixtures of one Gaussian per state, without samples."""

from __future__ import annotations

import math
from typing import NamedTuple, cast

import torch
from torch import Tensor

from sttau.models import Predictor, SequenceRegressor
from sttau_reproduction.power.data import Hours

_HALVINGS = 40  # of the interval in which a quantile is sought


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
        squares = (truth[:, None] - self.mean).square() / self.variance
        parts = self.weights.log() - 0.5 * (squares + (2 * math.pi * self.variance).log())
        return float(-parts.logsumexp(dim=1).mean())

    def points(self, count: int) -> Tensor:
        """Points of equal probability, (count, hours), in ascending order.

        Example:
            >>> two = StateMixture(torch.tensor([[0.5, 0.5]]), torch.tensor([-3.0, 3.0]), torch.tensor([0.01, 0.01]))
            >>> [round(point, 1) for point in two.points(2).flatten().tolist()]
            [-3.0, 3.0]
        """
        share = (torch.arange(count, dtype=torch.float64) + 0.5) / count
        deviation = self.variance.sqrt()
        low = (self.mean - 10 * deviation).min().expand(count, len(self.weights)).contiguous()
        high = (self.mean + 10 * deviation).max().expand(count, len(self.weights)).contiguous()
        for _ in range(_HALVINGS):
            middle = (low + high) / 2
            below = torch.zeros_like(middle)
            for weight, mean, spread in zip(self.weights.unbind(1), self.mean, deviation, strict=True):
                below += weight * torch.special.ndtr((middle - mean) / spread)
            under = below < share[:, None]
            low, high = torch.where(under, middle, low), torch.where(under, high, middle)
        return (low + high) / 2


@torch.no_grad()
def read_states(model: Predictor, hours: Hours) -> StateMixture:
    """Return what an automaton forecasts for each hour."""
    network = cast(SequenceRegressor, model.members[0])
    weights = network.state_distributions(hours.inputs, hours.lengths, per_step=False)
    mean, variance = network.state_outputs()
    assert variance is not None, "the network predicts a variance"
    return StateMixture(weights.double(), mean[:, 0].double(), variance[:, 0].double())
