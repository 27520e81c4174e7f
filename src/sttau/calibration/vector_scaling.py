"""Vector scaling: a weight and a bias per class."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from sttau.calibration.scaling import Scaling, average, averaged_loss, check_classes, check_logits
from sttau.calibration.temperature_scaling import TemperatureScaling
from sttau.checks import as_numbers


class VectorScaling(Scaling):
    """Multiply the logits of each class by a weight and add a bias (Guo et al., 2017, §4.2).

    The fit starts from the best temperature and is never worse than it on the data it is fitted on. It overfits if
    there are few validation examples of a class; the predicted class may change.

    Args:
        weight: (classes,) weights; set by ``fit``.
        bias: (classes,) biases; set by ``fit``.

    Example:
        >>> logits, labels = torch.tensor([[4.0, 0.0], [4.0, 0.0], [0.0, 4.0], [4.0, 0.0]]), torch.tensor([0, 0, 1, 1])
        >>> [round(p, 2) for p in VectorScaling().fit(logits, labels).probabilities(logits)[0].tolist()]
        [0.67, 0.33]
    """

    def __init__(self, weight: Any = None, bias: Any = None) -> None:
        if (weight is None) != (bias is None):
            raise ValueError("weight and bias must be given together, one of each per class, or not at all")
        self.weight = None if weight is None else as_numbers("weight", weight).to(torch.float64)
        self.bias = None if bias is None else as_numbers("bias", bias).to(torch.float64)

    def log_probabilities(self, logits: Any) -> Tensor:
        """Return (predictions, classes) log of the mean over samples of softmax(weight ⊙ logits + bias)."""
        z = check_logits(logits)
        if self.weight is None or self.bias is None:
            raise ValueError("this VectorScaling is not fitted; call fit with validation logits and labels first")
        check_classes(z, len(self.weight))
        return average(z * self.weight.to(z.device) + self.bias.to(z.device))

    def state_dict(self) -> dict[str, Any]:
        """Return weight and bias of the classes."""
        if self.weight is None or self.bias is None:
            raise ValueError("this VectorScaling is not fitted, so it has no state; call fit first")
        return {"type": "VectorScaling", "weight": self.weight.tolist(), "bias": self.bias.tolist()}

    def _fit(self, logits: Tensor, labels: Tensor) -> None:
        start = TemperatureScaling()
        start._fit(logits, labels)
        scale = 1 / start.temperature  # factors are relative to this, so the scale of the logits does not matter
        factor = torch.ones(logits.shape[-1], dtype=torch.float64, device=logits.device, requires_grad=True)
        bias = torch.zeros_like(factor, requires_grad=True)
        optimizer = torch.optim.LBFGS([factor, bias], max_iter=200, line_search_fn="strong_wolfe")
        best = (math.inf, factor, bias)

        def closure() -> float:
            nonlocal best
            optimizer.zero_grad()
            loss = averaged_loss(logits * scale * factor + bias, labels)
            loss.backward()
            value = loss.item()
            if value < best[0]:
                best = (value, factor.detach().clone(), bias.detach().clone())
            return value

        with torch.enable_grad():
            optimizer.step(closure)
        self.weight, self.bias = (best[1] * scale).detach(), best[2].detach()


SCALING = VectorScaling
