"""Exact training of a regressor: the likelihood of a mixture over its states."""

from __future__ import annotations

import pytest
import torch
from torch.distributions import Categorical, Independent, MixtureSameFamily, Normal

from sttau import SequenceRegressor, STTauGRU
from sttau.models import TargetScaling


@pytest.mark.parametrize("scaled", [False, True])
@pytest.mark.parametrize("outputs", [1, 2])
def test_exact_loss_is_the_likelihood_of_the_mixture_over_states(outputs: int, scaled: bool) -> None:
    torch.manual_seed(0)
    x, lengths, y = (
        torch.randn(5, 4, 3).double(),
        torch.tensor([4, 1, 3, 2, 4]),
        3 + 2 * torch.randn(5, outputs).double(),
    )
    scaling = TargetScaling.fitted(y) if scaled else None
    model = SequenceRegressor(STTauGRU(3, 6, 4, mode="exact"), outputs, variance=True, target_scaling=scaling).double()
    pi, (mean, variance) = model.state_distributions(x, lengths, per_step=False), model.state_outputs()
    assert variance is not None
    parts = Independent(Normal(mean.expand(5, -1, -1), variance.sqrt().expand(5, -1, -1)), 1)
    found = -MixtureSameFamily(Categorical(pi), parts).log_prob(y) / outputs
    if scaling is not None:  # the loss is that of standardized targets
        found = found - scaling.scale.log().mean()
    torch.testing.assert_close(model.loss(x, y, lengths), found.mean())
    weights = torch.tensor([1.0, 0.0, 2.0, 1.0, 0.0], dtype=torch.float64)
    torch.testing.assert_close(model.loss(x, y, lengths, weights=weights), (weights * found).mean())


def test_exact_training_finds_two_levels_that_one_gaussian_cannot_tell() -> None:
    torch.manual_seed(0)
    model = SequenceRegressor(STTauGRU(1, 8, 2, mode="exact"), 1, variance=True)
    x, y = torch.zeros(64, 1, 1), torch.where(torch.arange(64) % 2 == 0, 2.0, -2.0)[:, None]
    y = y + 0.1 * torch.randn(64, 1)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
    for _ in range(150):
        optimizer.zero_grad()
        model.loss(x, y).backward()
        optimizer.step()
    assert model.state_outputs().mean.sort(0).values.flatten().tolist() == pytest.approx([-2, 2], abs=0.2)
    assert model.loss(x, y) < 0.5  # one Gaussian of variance 4 has 2.1
