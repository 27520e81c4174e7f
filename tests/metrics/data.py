"""Random predictions for the tests of metrics."""

from __future__ import annotations

import torch
from torch import Tensor


def forecasts(seed: int, classes: int, size: int, tied: bool) -> tuple[Tensor, Tensor]:
    """Probabilities and labels; ``tied`` gives multiples of 1/10 only, including 0 and 1, many of them equal."""
    generator = torch.Generator().manual_seed(seed)
    y = torch.randint(classes, (size,), generator=generator)
    if not tied:
        return (3 * torch.randn(size, classes, generator=generator, dtype=torch.float64)).softmax(-1), y
    cuts = torch.randint(11, (size, classes - 1), generator=generator).sort(-1).values
    ends = torch.cat([torch.zeros(size, 1), cuts, torch.full((size, 1), 10.0)], -1)
    return ends.to(torch.float64).diff(dim=-1) / 10, y


def mixture(seed: int, samples: int, size: int, outputs: int = 1) -> tuple[Tensor, Tensor, Tensor]:
    """Means, variances and targets."""
    generator = torch.Generator().manual_seed(seed)
    mean = 2 * torch.randn(samples, size, outputs, generator=generator, dtype=torch.float64)
    variance = torch.rand(samples, size, outputs, generator=generator, dtype=torch.float64) + 0.05
    return mean, variance, 2 * torch.randn(size, outputs, generator=generator, dtype=torch.float64)
