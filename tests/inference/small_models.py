"""Small models whose states differ, their batches, and every path of a sequence walked by hand."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeVar

import torch
from torch import Tensor

from sttau import BayesLSTM, SequenceClassifier, STTauGRU, VariationalDropoutLSTM
from sttau.models import SequenceModel

DOUBLE = torch.float64
EXACTLY = 1e-12  # for sums in float64 that differ only in their order
APART = 1e-3  # by this much differs what is not the same
FIELDS = ("mean", "variance", "total", "aleatoric", "epistemic")
M = TypeVar("M", bound=SequenceModel)


def close(got: Tensor, want: Tensor, tolerance: float = EXACTLY) -> None:
    torch.testing.assert_close(got, want, rtol=0, atol=tolerance)


def bold(model: M, seed: int = 0) -> M:
    """Give a model float64 weights so wide that its states, classes and steps differ."""
    generator = torch.Generator().manual_seed(seed)
    model = model.double()
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if "temperature" not in name:
                weight.copy_(torch.randn(weight.shape, generator=generator, dtype=DOUBLE))
    return model


def batch_of(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=DOUBLE)


def bits(p: Tensor) -> Tensor:
    return -torch.xlogy(p, p).sum(-1) / math.log(2)


def small_gru(k: int = 3, classes: int = 3, seed: int = 0, **options: Any) -> SequenceClassifier:
    return bold(SequenceClassifier(STTauGRU(2, 4, num_states=k, **options), classes), seed)


SAMPLED: dict[str, Callable[[], Any]] = {
    "bayes": lambda: BayesLSTM(2, 4),
    "dropout": lambda: VariationalDropoutLSTM(2, 4, dropout=0.4),
    "deep bayes": lambda: BayesLSTM(2, 4, num_layers=2, dropout=0.5, bidirectional=True),
    "deep dropout": lambda: VariationalDropoutLSTM(2, 4, num_layers=2, dropout=0.4, bidirectional=True),
}
