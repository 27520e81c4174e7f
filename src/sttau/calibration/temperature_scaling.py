"""Temperature scaling: one parameter for all logits."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from torch import Tensor

from sttau.calibration.scaling import Scaling, average, averaged_loss, check_logits

_GRID = 65  # temperatures evaluated before the golden-section search
_SECTIONS = 40  # steps of that search


class TemperatureScaling(Scaling):
    """Divide the logits by one parameter, the temperature T.

    On the data it is fitted on, the negative log-likelihood is never larger than before (T = 1). A single sample keeps
    its predicted class; the average of several samples may change it. T is searched between 1/100 and 100 times the
    mean range of a row of logits; at these limits the softmax is nearly a step function or nearly uniform.

    Args:
        temperature: Temperature T; set by ``fit``.

    Example:
        >>> import torch
        >>> logits, labels = torch.tensor([[4.0, 0.0], [4.0, 0.0], [0.0, 4.0], [4.0, 0.0]]), torch.tensor([0, 0, 1, 1])
        >>> scaling = TemperatureScaling().fit(logits, labels)  # odds of e⁴, but right 3 times out of 4
        >>> round(scaling.temperature, 3), [round(p, 3) for p in scaling.probabilities(logits)[0].tolist()]
        (3.641, [0.75, 0.25])
    """

    def __init__(self, temperature: float = 1.0) -> None:
        if not 0 < temperature < math.inf:
            raise ValueError(f"temperature must be positive and finite, got {temperature}")
        self.temperature = float(temperature)

    def log_probabilities(self, logits: Any) -> Tensor:
        """Return (predictions, classes) log of the mean over samples of softmax(logits / T)."""
        return average(check_logits(logits) / self.temperature)

    def state_dict(self) -> dict[str, Any]:
        """Return the temperature."""
        return {"type": "TemperatureScaling", "temperature": self.temperature}

    def _fit(self, logits: Tensor, labels: Tensor) -> None:
        def loss(temperature: float) -> float:
            return float(averaged_loss(logits / temperature, labels))

        self.temperature = fit_temperature(loss, float((logits.amax(-1) - logits.amin(-1)).mean()))


def fit_temperature(loss: Callable[[float], float], spread: float) -> float:
    """Return the temperature with the smallest loss; 1 unless another is better.

    Args:
        loss: Function of the temperature.
        spread: Mean range of a row of logits; temperatures between 1/100 and 100 times it are searched.
    """

    def at(log_t: float) -> float:
        return loss(math.exp(log_t))

    best = (at(0.0), 0.0)  # T = 1; only replaced by something better
    if spread > 0:
        # The loss is convex in 1/T for one sample, but not for the mean of several: a grid first, then a
        # golden-section search around its best point.
        middle, width = math.log(spread), 2 * math.log(100) / (_GRID - 1)
        grid = [middle + width * (i - (_GRID - 1) / 2) for i in range(_GRID)]
        seen = [best, *((at(point), point) for point in grid)]
        best = min(seen, key=lambda pair: pair[0])
        best = min(best, _golden_section(at, best[1] - width, best[1] + width), key=lambda pair: pair[0])
    return math.exp(best[1])


def _golden_section(function: Any, low: float, high: float) -> tuple[float, float]:
    """Return the smallest value found between low and high, and its argument."""
    golden = (math.sqrt(5) - 1) / 2
    left, right = high - golden * (high - low), low + golden * (high - low)
    at_left, at_right = function(left), function(right)
    for _ in range(_SECTIONS):
        if at_left <= at_right:
            high, right, at_right = right, left, at_left
            left = high - golden * (high - low)
            at_left = function(left)
        else:
            low, left, at_left = left, right, at_right
            right = low + golden * (high - low)
            at_right = function(right)
    return min((at_left, left), (at_right, right))


SCALING = TemperatureScaling
