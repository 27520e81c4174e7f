from __future__ import annotations

import pytest
import torch
from torch import nn

import sttau
from sttau import SequenceClassifier
from sttau.training import TrainOptions, Update, fit, swag
from sttau.training.swag import WeightMoments, snapshot_interval


def problem(count: int = 60) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    y = torch.arange(count) % 2
    return 0.5 * torch.randn(count, 5, 2, generator=generator) + (2.0 * y - 1)[:, None, None], y


def test_the_moments_are_those_of_the_weights_that_were_added() -> None:
    weights = torch.randn(30, 7, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    moments = WeightMoments(rank=4)
    for row in weights:
        moments.add(row)
    torch.testing.assert_close(moments.mean, weights.mean(0))
    torch.testing.assert_close(moments.variance, weights.var(0, correction=0))
    expected = torch.stack([weights[n] - weights[: n + 1].mean(0) for n in range(26, 30)])
    torch.testing.assert_close(torch.stack(moments.deviations), expected)


def test_the_draws_have_half_of_each_covariance() -> None:
    weights = torch.randn(30, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    moments = WeightMoments(rank=5)
    for row in weights:
        moments.add(row)
    generator = torch.Generator().manual_seed(1)
    drawn = torch.stack([moments.draw(generator) for _ in range(20_000)])
    last = torch.stack(moments.deviations)
    covariance = 0.5 * (weights.var(0, correction=0).diag() + last.T @ last / 4)
    assert float((drawn.T.cov() - covariance).norm() / covariance.norm()) < 0.05
    assert float((drawn.mean(0) - weights.mean(0)).norm()) < 0.04 * float(covariance.trace().sqrt())
    with pytest.raises(ValueError, match="two weights must be added"):
        WeightMoments().draw(generator)


def test_the_weights_collected_are_those_that_training_passes_through(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same training, with its weights recorded by hand, passes through the same."""
    x, y = problem()
    torch.manual_seed(0)
    model = SequenceClassifier(nn.GRU(2, 4), 2)
    start = nn.utils.parameters_to_vector(model.parameters()).clone()
    added: list[torch.Tensor] = []
    own = WeightMoments.add

    def add(self: WeightMoments, weights: torch.Tensor) -> None:
        added.append(weights.detach().clone())
        own(self, weights)

    monkeypatch.setattr(WeightMoments, "add", add)
    options = TrainOptions(updates=40, learning_rate=0.01, schedule="cosine", warmup=3, batch_size=16, seed=5)
    swag(model, x, y, members=2, snapshots=3, every=4, options=options)
    assert torch.equal(nn.utils.parameters_to_vector(model.parameters()), start)  # a copy was trained

    recorded: list[torch.Tensor] = []

    def record(update: Update) -> None:
        recorded.append(nn.utils.parameters_to_vector(model.parameters()).detach().clone())

    seed = sttau.seeds.derive_seed(5, "swag")
    fit(model, x, y, updates=12, learning_rate=0.01, batch_size=16, seed=seed, callbacks=record, progress=False)
    torch.testing.assert_close(torch.stack(added), torch.stack(recorded[3::4]))


def test_by_default_a_snapshot_is_an_epoch_apart_and_all_take_half_of_the_updates_at_most() -> None:
    options = [TrainOptions(updates=updates, batch_size=16) for updates in (10, 100, 200, 10_000)]
    assert [snapshot_interval(one, sequences=100, snapshots=10) for one in options] == [1, 5, 7, 7]
