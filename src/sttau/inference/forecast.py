"""The next steps of a series, as many possible continuations: each value that is drawn is read like a measured one."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from sttau.checks import as_tensor
from sttau.engine import Noise, fingerprint
from sttau.inference.predict import choose_mode, evaluating
from sttau.layers import BayesLSTM
from sttau.models import DeepEnsemble, SequenceModel, SequenceRegressor

_OWN = 0x7FFF  # the layer under whose number the values are drawn; no network has so many
_ROWS = 1 << 14  # sequences × paths that are run at once


@dataclass(frozen=True)
class Forecast:
    """Possible continuations of each series of a batch.

    Attributes:
        paths: (samples, batch, steps, outputs); all of one number belong together, step by step.
    """

    paths: Tensor

    @property
    def mean(self) -> Tensor:
        """(batch, steps, outputs) over paths."""
        return self.paths.mean(0)

    @property
    def variance(self) -> Tensor:
        """(batch, steps, outputs) over paths: noise of the data and doubt about the model together."""
        return self.paths.var(0, correction=0)

    def quantile(self, share: float) -> Tensor:
        """(batch, steps, outputs) the number below which this share of the paths lies."""
        if not 0 < share < 1:
            raise ValueError(f"share must lie between 0 and 1, for instance 0.5, got {share}")
        return self.paths.quantile(share, dim=0)

    def interval(self, level: float = 0.9) -> tuple[Tensor, Tensor]:
        """Bounds with (1 - level) / 2 of the paths on either side, at each step by itself."""
        if not 0 < level < 1:
            raise ValueError(f"level must lie between 0 and 1, for instance 0.9, got {level}")
        return self.quantile((1 - level) / 2), self.quantile((1 + level) / 2)


def forecast(
    model: SequenceRegressor | DeepEnsemble,
    history: Any,
    steps: int,
    samples: int = 100,
    seed: int = 0,
    *,
    known: Any = None,
) -> Forecast:
    """Continue series by Monte-Carlo paths: predict a step, draw from it, read what was drawn, and so on.

    The model must predict the next values of its own first features, in the same unit. Along a path it stays the same
    model: one draw of weights, one mask, one member of an ensemble, and the same noise whenever a step is read again.
    As many steps are read as ``history`` holds, so give as many as the model was trained on. A series' paths depend on
    the seed and on the series alone, not on the batch.

    Args:
        model: a regressor, or an ensemble of them. Without variance head the paths hold no noise of the data.
        history: (batch, time, features), up to now.
        steps: how many to go on.
        samples: paths for each series; each member of an ensemble takes its share.
        seed: of all that is drawn.
        known: (batch, steps, features - outputs), the other features of the steps to come, such as the hour of the
            day; the last of them is never read.

    Example:
        >>> from sttau import STTauLSTM
        >>> model = SequenceRegressor(STTauLSTM(1, 16, num_states=4), variance=True)
        >>> f = forecast(model, torch.randn(3, 24, 1), steps=6, samples=50)
        >>> f.paths.shape, f.mean.shape, f.interval(0.8)[0].shape
        (torch.Size([50, 3, 6, 1]), torch.Size([3, 6, 1]), torch.Size([3, 6, 1]))
    """
    members = model.members
    if not isinstance(members[0], SequenceRegressor) or model.embedding is not None:
        raise TypeError("forecast needs a SequenceRegressor that reads numbers, or an ensemble of them")
    device, outputs = model.head.weight.device, members[0].num_outputs
    x = as_tensor("history", history).to(device=device, dtype=model.head.weight.dtype)
    model.check(x, None)
    for name, number in (("steps", steps), ("samples", samples)):
        if not isinstance(number, int) or number < 1:
            raise ValueError(f"{name} must be a whole number, at least 1, got {number}")
    batch, _, features = x.shape
    if outputs > features:
        raise ValueError(f"the model predicts {outputs} numbers but reads {features}: it cannot read its own answers")
    others = features - outputs
    if known is None and others and steps > 1:
        raise ValueError(
            f"the model reads {others} features besides what it predicts; pass known=(batch, steps, {others}), their "
            "values at the steps to come"
        )
    beside = x.new_zeros(batch, steps, others) if known is None else as_tensor("known", known).to(x)
    if tuple(beside.shape) != (batch, steps, others):
        raise ValueError(f"known must have shape ({batch}, {steps}, {others}), got {tuple(beside.shape)}")
    if not bool(beside.isfinite().all()):
        raise ValueError("known holds NaN or infinity; all features of the steps to come must be given")

    names = fingerprint(x)
    paths: list[Tensor] = []
    begun = 0  # paths of the members before
    with torch.no_grad(), evaluating(model):
        for number, member in enumerate(members):
            own = samples // len(members) + (number < samples % len(members))
            shared = isinstance(member.layer, BayesLSTM)  # one draw of weights serves all rows of a call
            at_once = 1 if shared else max(1, _ROWS // batch)
            for first in range(0, own, at_once):
                noise = Noise.of(names, min(at_once, own - first), seed, begun + first)
                paths.append(_continue(member, x, beside, noise, steps, outputs))
            begun += own
    return Forecast(torch.cat(paths))


def _continue(model: SequenceModel, x: Tensor, known: Tensor, noise: Noise, steps: int, outputs: int) -> Tensor:
    """(runs, batch, steps, outputs): one path for each row of the noise."""
    runs, mode = len(noise.sequence) // len(x), choose_mode(model, "auto")
    if mode == "exact":
        mode = "hard"  # of the law that exact inference sums up, one path at a time
    draws = torch.special.ndtri(replace(noise, layer=_OWN).uniform(0, steps, outputs, torch.float64)).to(x)
    window, known = x.repeat(runs, 1, 1), known.repeat(runs, 1, 1)
    path = []
    for step in range(steps):
        mean, variance = model(window, None, noise=replace(noise, first_step=step), mode=mode)
        value = mean if variance is None else mean + variance.sqrt() * draws[:, step]
        path.append(value)
        window = torch.cat([window[:, 1:], torch.cat([value, known[:, step]], dim=-1)[:, None]], dim=1)
    whole: Tensor = torch.stack(path, dim=1).unflatten(0, (runs, len(x)))
    return whole
