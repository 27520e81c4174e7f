"""Forecasts of networks: distributions of the power of each hour, as points of equal probability."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from sttau.metrics.nll import gaussian_nll_terms
from sttau_reproduction.power.data import CENTRE, DEVIATION, MEAN, SCALE, to_log_scale, to_power
from sttau_reproduction.power.mixture import StateMixture

POINTS = 1000  # of equal probability, that represent a distribution


class Forecast(NamedTuple):
    """A forecast of some hours.

    Attributes:
        points: (points, hours) of equal probability, in kW.
        mean: (hours,) point forecasts.
        nll: (hours,) negative log-likelihood of the measured power; None without a density.
        extra: Further metrics.
    """

    points: Tensor
    mean: Tensor
    nll: Tensor | None
    extra: dict[str, float]


def forecast_distribution(mean: Tensor, variance: Tensor, power: Tensor) -> Forecast:
    """The mixture of the log-normal distributions of samples, and its variance by source."""
    runs = len(mean)
    share = (torch.arange(POINTS // runs, dtype=torch.float64) + 0.5) / (POINTS // runs)
    steps: Tensor = torch.special.ndtri(share)
    middle, spread = CENTRE + SCALE * mean[..., 0], SCALE**2 * variance[..., 0]
    each = (middle + spread / 2).exp()  # the mean of each sample's distribution
    noise = spread.expm1() * each.square()
    return Forecast(
        to_power(mean[..., 0] + variance[..., 0].sqrt() * steps[:, None, None]).flatten(0, 1),
        each.mean(0),
        gaussian_nll_terms(mean, variance, to_log_scale(power)[:, None])[:, 0] + (SCALE * power).log(),
        {
            "aleatoric": math.sqrt(float(noise.mean())),
            "epistemic": math.sqrt(float(each.var(0, correction=0).mean())),
        },
    )


def forecast_mean(mean: Tensor) -> Forecast:
    """Forecast of a network without variance head: the spread of samples is all its uncertainty."""
    power = MEAN + DEVIATION * mean[..., 0]
    middle, deviation = power.mean(0), power.std(0, correction=0)
    share = (torch.arange(100, dtype=torch.float64) + 0.5) / 100
    points = middle + deviation * torch.special.ndtri(share)[:, None]
    return Forecast(points, middle, None, {"epistemic": math.sqrt(float(deviation.square().mean()))})


def forecast_states(states: StateMixture, power: Tensor) -> Forecast:
    """The mixture of the log-normal distributions of all states."""
    middle, spread = CENTRE + SCALE * states.mean, SCALE**2 * states.variance
    each = (middle + spread / 2).exp()
    mean = states.weights @ each
    return Forecast(
        to_power(states.points(POINTS)),
        mean,
        states.nll_terms(to_log_scale(power)) + (SCALE * power).log(),
        {
            "aleatoric": math.sqrt(float((states.weights @ (spread.expm1() * each.square())).mean())),
            "epistemic": math.sqrt(float((states.weights @ each.square() - mean.square()).mean())),
        },
    )
