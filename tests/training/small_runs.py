"""Small data that can be learned, layers that learn it, and short runs of training."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import Any

import torch
from torch import Tensor, nn

from sttau import STTauGRU, STTauLSTM
from sttau.models import Predictor
from sttau.training import fit


def signs(count: int = 64) -> tuple[Tensor, Tensor, Tensor]:
    """Sequences whose label is the sign of their first step: something to remember."""
    x = torch.randn(count, 3, 2)
    return x, (x[:, 0, 0] > 0).long(), torch.randint(1, 4, (count,))


LAYERS: dict[str, Callable[[], nn.Module]] = {
    "lstm": lambda: nn.LSTM(2, 16),
    "soft": lambda: STTauLSTM(2, 16, 4),
    "hard": lambda: STTauGRU(2, 16, 4, mode="hard"),
    "exact": lambda: STTauGRU(2, 16, 4, mode="exact"),
    "deterministic": lambda: STTauGRU(2, 16, 4, mode="deterministic"),
}


def weights_of(model: Predictor) -> Tensor:
    return torch.cat([p.detach().flatten() for p in model.parameters()])


def trained(model: Predictor, *data: Tensor, **options: Any) -> tuple[Tensor, list[float]]:
    """Weights and losses after five updates on all the data."""
    copy = deepcopy(model)
    log = fit(copy, *data, **{"updates": 5, "learning_rate": 0.02, "clip_norm": None} | options)
    return weights_of(copy), [update.loss for update in log]


class Rates(torch.optim.SGD):
    """Plain descent that notes its learning rate."""

    def __init__(self, parameters: Any, **options: Any) -> None:
        super().__init__(parameters, **options)
        self.rates: list[float] = []
        made.append(self)

    def step(self, closure: Any = None) -> Any:
        self.rates.append(self.param_groups[0]["lr"])
        return super().step(closure)


made: list[Rates] = []
