"""Forecasts by Monte Carlo: sampled continuations of a series, each step read back as input."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from sttau.checks import as_integer, as_tensor, check_level
from sttau.engine import Noise, fingerprint
from sttau.engine.noise.identity import distinguish
from sttau.inference.chunks import in_eval_mode
from sttau.inference.ranges import warn_outside_ranges
from sttau.models import Predictor, SequenceModel

_VALUE_LAYER = 0x7FFF  # layer number under which the values are drawn; no network has so many layers
_ROWS = 1 << 14  # sequences · paths that are run at once


@dataclass(frozen=True)
class Forecast:
    """Sampled continuations of each series of a batch.

    Attributes:
        paths: (members · samples, batch, steps, outputs); a path is one continuation over all steps.
    """

    paths: Tensor

    @property
    def mean(self) -> Tensor:
        """(batch, steps, outputs) over paths."""
        return self.paths.mean(0)

    @property
    def variance(self) -> Tensor:
        """(batch, steps, outputs) over paths: noise of the data and uncertainty of the model together."""
        return self.paths.var(0, correction=0)

    def quantile(self, share: float) -> Tensor:
        """(batch, steps, outputs) quantile over paths."""
        check_level("share", share, 0.5)
        return self.paths.quantile(share, dim=0)

    def interval(self, level: float = 0.9) -> tuple[Tensor, Tensor]:
        """Return bounds with (1 - level) / 2 of the paths on either side, at each step separately."""
        check_level("level", level, 0.9)
        return self.quantile((1 - level) / 2), self.quantile((1 + level) / 2)


def forecast(
    model: Predictor,
    history: Any,
    steps: int,
    samples: int = 100,
    seed: int = 0,
    *,
    known: Any = None,
) -> Forecast:
    """Continue series by Monte Carlo paths: predict a step, sample a value, read it as input, and repeat.

    The model must predict the next values of its own first features, in the same unit, as a model trained on
    :func:`sttau.data.windows` does. Features that are known in advance are read one step ahead: the last row of the
    history holds those of the first step to come. Along a path it stays the same
    model: one draw of weights, one mask, one member of an ensemble, and the same noise whenever a step is read again.
    The model reads as many steps as ``history`` holds, so pass as many as it was trained on. The paths of a series
    depend on the seed and on the series alone, not on the batch, except that equal series have paths of their own.

    A network trained on levels does not extrapolate: a warning is logged where the last values of a series are outside
    the range that the model was trained on. Model differences or ratios of a series with a trend.

    Args:
        model: A regressor, or an ensemble of them. Without a variance head the paths hold no noise of the data.
        history: (batch, time, features), up to the present: ``windows(…).history`` or some of ``windows(…).inputs``.
        steps: Number of steps to forecast.
        samples: Paths per series and member.
        seed: Seed of all draws.
        known: (batch, steps, features - outputs), the other features at each of the steps to come, such as the hour
            of the day that is forecast. Those of the first step are in the history already, and must be the same.

    Example:
        >>> from sttau import SequenceRegressor, STTauLSTM
        >>> model = SequenceRegressor(STTauLSTM(1, 16, num_states=4), variance=True)
        >>> f = forecast(model, torch.randn(3, 24, 1), steps=6, samples=50)
        >>> f.paths.shape, f.mean.shape, f.interval(0.8)[0].shape
        (torch.Size([50, 3, 6, 1]), torch.Size([3, 6, 1]), torch.Size([3, 6, 1]))
    """
    if model.task != "regression" or model.reads_tokens:
        raise TypeError("forecast needs a SequenceRegressor that reads features, or an ensemble of them")
    outputs = model.num_outputs
    x = as_tensor("history", history).to(device=model.device, dtype=model.dtype)
    model.check_inputs(x, None)
    steps, samples = as_integer("steps", steps, 1), as_integer("samples", samples, 1)
    batch, _, features = x.shape
    if outputs > features:
        raise ValueError(f"the model predicts {outputs} values but reads {features} features: its output is no input")
    others = features - outputs
    if known is None and others and steps > 1:
        raise ValueError(
            f"the model reads {others} features besides what it predicts; pass known=(batch, steps, {others}), their "
            "values at the steps to come"
        )
    covariates = x.new_zeros(batch, steps, others) if known is None else as_tensor("known", known).to(x)
    if tuple(covariates.shape) != (batch, steps, others):
        raise ValueError(f"known must have shape ({batch}, {steps}, {others}), got {tuple(covariates.shape)}")
    if not bool(covariates.isfinite().all()):
        raise ValueError("known holds NaN or infinity; all features of the steps to come must be given")
    if known is not None:
        _check_alignment(x[:, -1, outputs:], covariates[:, 0])
    warn_outside_ranges(model, x)

    ids = distinguish(fingerprint(x))
    paths: list[Tensor] = []
    with torch.no_grad():
        for number, member in enumerate(in_eval_mode(model).members):
            at_once = 1 if member.layer.shares_draws else max(1, _ROWS // batch)
            for first in range(0, samples, at_once):
                noise = Noise.of(ids, min(at_once, samples - first), seed, number * samples + first)
                paths.append(_continue(member, x, covariates, noise, steps, outputs))
    return Forecast(torch.cat(paths))


def _check_alignment(last: Tensor, first: Tensor) -> None:
    """Raise unless the history ends with what is known about the first step to come."""
    differ = ~torch.isclose(last, first, rtol=1e-4, atol=1e-6)
    if bool(differ.any()):
        row, place = (int(number) for number in differ.nonzero()[0])
        raise ValueError(
            f"known begins with {float(first[row, place]):.6g} for its feature {place} of series {row}, but the last "
            f"row of history holds {float(last[row, place]):.6g}: a row must hold what is known about the next step, "
            "in training too. Pass such features as known= of sttau.data.windows, which shifts them, and train on its "
            "inputs; the end of the series is its history"
        )


def _continue(model: SequenceModel, x: Tensor, known: Tensor, noise: Noise, steps: int, outputs: int) -> Tensor:
    """Return (samples, batch, steps, outputs): one path per row of the noise."""
    samples, mode = len(noise.sequence) // len(x), model.resolve_mode(None)
    if mode == "exact":
        mode = "hard"  # single paths of the distribution that exact inference sums over
    draws = torch.special.ndtri(replace(noise, layer=_VALUE_LAYER).uniform(0, steps, outputs, torch.float64)).to(x)
    window, known = x.repeat(samples, 1, 1), known.repeat(samples, 1, 1)
    path = []
    for step in range(steps):
        mean, variance = model(window, None, noise=replace(noise, first_step=step), mode=mode)
        value = mean if variance is None else mean + variance.sqrt() * draws[:, step]
        path.append(value)
        if step + 1 < steps:
            row = torch.cat([value, known[:, step + 1]], dim=-1)  # a value, and what is known about the next
            window = torch.cat([window[:, 1:], row[:, None]], dim=1)
    whole: Tensor = torch.stack(path, dim=1).unflatten(0, (samples, len(x)))
    return whole
