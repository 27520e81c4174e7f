"""An exponential moving average of the weights."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor, nn


class EMA:
    """An exponential moving average of parameters. It begins as the plain mean of all updates.

    Args:
        parameters: Parameters to average.
        decay: Share of the average that is kept at an update.

    Example:
        >>> weight = nn.Parameter(torch.zeros(1))
        >>> ema = EMA([weight], decay=0.9)
        >>> with torch.no_grad():
        ...     _ = weight.fill_(1.0)
        >>> ema.update(1)
        >>> ema.weights[0].item()
        0.5
    """

    def __init__(self, parameters: Sequence[nn.Parameter], decay: float) -> None:
        self.parameters, self.decay = list(parameters), decay
        self.weights = [parameter.detach().clone() for parameter in parameters]

    def rate(self, number: int) -> float:
        """Return how far the average moves towards the weights at an update, counted from 1."""
        return max(1 - self.decay, 1 / (1 + number))

    def update(self, number: int) -> None:
        """Include the weights after an update, counted from 1."""
        torch._foreach_lerp_(self.weights, [parameter.detach() for parameter in self.parameters], self.rate(number))

    def update_by(self, rate: Tensor) -> None:
        """Include the weights with a rate that is on the device, as a captured update needs it."""
        differences = torch._foreach_sub([parameter.detach() for parameter in self.parameters], self.weights)
        torch._foreach_mul_(differences, rate)
        torch._foreach_add_(self.weights, differences)

    def copy_to_parameters(self) -> None:
        """Set the parameters to their average."""
        copy_tensors(self.weights, self.parameters)

    @contextmanager
    def applied(self) -> Iterator[None]:
        """Set the parameters to their average inside the context."""
        own = [parameter.detach().clone() for parameter in self.parameters]
        self.copy_to_parameters()
        try:
            yield
        finally:
            copy_tensors(own, self.parameters)


@torch.no_grad()
def copy_tensors(values: Sequence[Tensor], into: Sequence[Tensor]) -> None:
    """Copy the values of tensors into others of the same shapes."""
    for target, value in zip(into, values, strict=True):
        target.copy_(value)
