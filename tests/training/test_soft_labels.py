from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from sttau import DeepEnsemble, SequenceClassifier, SequenceRegressor, STTauGRU
from sttau.engine import Noise
from sttau.models import Predictor
from sttau.training import fit
from sttau.training.soft_labels import as_soft_labels, training_targets


def _signs(count: int) -> tuple[Tensor, Tensor, Tensor]:
    x = torch.randn(count, 3, 2)
    return x, (x[:, 0, 0] > 0).long(), torch.randint(1, 4, (count,))


def _trained(model: Predictor, *data: Tensor, **options: Any) -> tuple[Tensor, list[float]]:
    """Weights and losses after five updates on all the data."""
    copy = deepcopy(model)
    log = fit(copy, *data, updates=5, learning_rate=0.02, clip_norm=None, **options)
    return torch.cat([p.detach().flatten() for p in copy.parameters()]), [update.loss for update in log]


@pytest.mark.parametrize("task", ["one", "paths", "joint"])
def test_soft_labels_of_0_and_1_train_as_labels_and_others_as_the_mean_of_both_losses(task: str) -> None:
    x, y, lengths = _signs(8)
    x = x.double()
    make: dict[str, Callable[[], Predictor]] = {
        "one": lambda: SequenceClassifier(nn.GRU(2, 4), 2),
        "paths": lambda: SequenceClassifier(STTauGRU(2, 4, 3), 2, paths=3),
        "joint": lambda: DeepEnsemble.of(lambda: SequenceClassifier(nn.GRU(2, 4), 2), size=2, joint=0.5),
    }
    model = make[task]().double()
    certain = torch.nn.functional.one_hot(y, 2)
    expected, got = _trained(model, x, y, lengths), _trained(model, x, y, lengths, soft_labels=certain)
    torch.testing.assert_close(got, expected, rtol=1e-9, atol=1e-9)
    noise = Noise(torch.tensor(0), torch.arange(8), torch.zeros(8, dtype=torch.int64)) if task == "paths" else None
    losses = [model.loss(x, torch.full_like(y, label), lengths, noise=noise) for label in (0, 1)]
    mixed = model.loss(x, torch.tensor([[0.3, 0.7]], dtype=torch.float64).expand(8, 2), lengths, noise=noise)
    torch.testing.assert_close(mixed, 0.3 * losses[0] + 0.7 * losses[1])


def test_soft_labels_are_for_classifiers() -> None:
    with pytest.raises(ValueError, match="soft_labels are for classifiers"):
        fit(SequenceRegressor(nn.GRU(2, 4), 1), torch.zeros(2, 3, 2), torch.zeros(2, 1), soft_labels=[[1.0, 0.0]] * 2)


def test_probabilities_that_miss_1_by_rounding_are_scaled_to_it() -> None:
    soft = as_soft_labels(np.array([[0.25, 0.7501]], dtype=np.float32))
    assert soft is not None
    assert soft.dtype == torch.float64
    assert float(soft.sum()) == 1
    assert training_targets(soft, torch.tensor([1]), 2, torch.float32).dtype == torch.float32
    labels = torch.tensor([1])
    assert training_targets(None, labels, 2, torch.float32) is labels
