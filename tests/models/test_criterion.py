"""Losses of rows against their formulas, PyTorch and finite differences."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from sttau import SequenceClassifier, SequenceRegressor, STTauLSTM
from sttau.engine import Noise
from sttau.models import Gaussian, TargetScaling, focal_loss
from sttau.models.criterion import Criterion, make_criterion, weighted_mean


def test_focal_loss_is_its_formula_and_cross_entropy_where_gamma_is_0() -> None:
    logits, targets = torch.randn(50, 4, dtype=torch.float64), torch.randint(4, (50,))
    p = logits.softmax(-1).gather(1, targets[:, None])[:, 0]
    for gamma in (0.5, 1.0, 2.0, 5.0):
        torch.testing.assert_close(focal_loss(logits, targets, gamma), -((1 - p) ** gamma) * p.log())
    torch.testing.assert_close(focal_loss(logits, targets, 0.0), F.cross_entropy(logits, targets, reduction="none"))


@pytest.mark.parametrize("gamma", [0.5, 2.0])
def test_focal_loss_has_a_finite_gradient_where_the_label_is_certain(gamma: float) -> None:
    logits = torch.tensor([[0.0, 2000.0], [2000.0, 0.0]], requires_grad=True)
    loss = focal_loss(logits, torch.tensor([1, 1]), gamma)
    torch.testing.assert_close(loss, torch.tensor([0.0, 2000.0]))
    (gradient,) = torch.autograd.grad(loss.sum(), logits)
    assert gradient.isfinite().all()


def test_label_smoothing_is_that_of_pytorch() -> None:
    logits, targets = torch.randn(20, 3), torch.randint(3, (20,))
    criterion = make_criterion(None, 0.2, "classification")
    assert criterion is not None
    expected = nn.CrossEntropyLoss(label_smoothing=0.2)(logits, targets)
    torch.testing.assert_close(criterion(logits, targets).mean(), expected)


@pytest.mark.parametrize("paths", [1, 3])
@pytest.mark.parametrize("loss", ["cross-entropy", "focal", "smoothed"])
def test_gradients_with_weights_are_those_of_finite_differences(loss: str, paths: int) -> None:
    torch.manual_seed(0)
    model = SequenceClassifier(STTauLSTM(2, 4, 3), 3, paths=paths).double()
    model.criterion = make_criterion("focal" if loss == "focal" else None, 0.1 * (loss == "smoothed"), "classification")
    x, y = torch.randn(5, 4, 2, dtype=torch.float64), torch.tensor([0, 1, 2, 1, 0])
    weights, noise = torch.tensor([0.0, 0.5, 1.0, 2.0, 1.5], dtype=torch.float64), Noise.of(torch.arange(5), seed=3)

    (gradient,) = torch.autograd.grad(model.loss(x, y, noise=noise, weights=weights), model.head.weight)
    numeric, weight, step = torch.zeros_like(gradient), model.head.weight.data, 1e-6
    for place in range(weight.numel()):
        ends = []
        for sign in (1, -1):
            weight.view(-1)[place] += sign * step
            ends.append(model.loss(x, y, noise=noise, weights=weights).detach())
            weight.view(-1)[place] -= sign * step
        numeric.view(-1)[place] = (ends[0] - ends[1]) / (2 * step)
    torch.testing.assert_close(gradient, numeric, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("paths", [1, 4])
def test_the_mean_is_weighted_by_row_whatever_the_criterion(paths: int) -> None:
    x, y, weights = torch.randn(5, 7, 2), torch.tensor([0, 1, 2, 1, 0]), torch.tensor([0.0, 2.0, 1.0, 0.5, 1.5])
    own, values = Noise.of(torch.arange(5), seed=3), torch.randn(5, 2)
    models = {
        "classifier": (SequenceClassifier(STTauLSTM(2, 6, 3), 3, paths=paths), y),
        "regressor": (SequenceRegressor(STTauLSTM(2, 6, 3), 2, variance=True, paths=paths), values),
    }
    criteria = {"classifier": Criterion(focal_loss), "regressor": Criterion(_distance)}
    for kind, (model, targets) in models.items():
        for criterion in (None, criteria[kind]):
            model.criterion = criterion
            single = [
                model.loss(x[row : row + 1], targets[row : row + 1], noise=Noise.of(torch.tensor([row]), seed=3))
                for row in range(5)
            ]
            loss = model.loss(x, targets, noise=own, weights=weights)
            torch.testing.assert_close(loss, (torch.stack(single) * weights).mean(), rtol=1e-4, atol=1e-5)
            torch.testing.assert_close(
                model.loss(x, targets, noise=own), torch.stack(single).mean(), rtol=1e-4, atol=1e-5
            )


def _distance(output: Gaussian, targets: Tensor) -> Tensor:
    assert output.variance is not None
    return ((output.mean - targets).abs() + output.variance).sum(1)


def test_with_several_paths_a_criterion_has_their_mean_probability_or_the_moments_of_their_mixture() -> None:
    x, y, values = torch.randn(5, 7, 2), torch.tensor([0, 1, 2, 1, 0]), torch.randn(5, 2)
    own, several = Noise.of(torch.arange(5), seed=3), Noise.of(torch.arange(5), samples=4, seed=3)
    classifier = SequenceClassifier(STTauLSTM(2, 6, 3), 3, paths=4)
    mean = classifier(x, noise=several).softmax(-1).view(4, 5, 3).mean(0)
    functions: tuple[Callable[[Tensor, Tensor], Tensor], ...] = (
        focal_loss,
        partial(F.cross_entropy, label_smoothing=0.2, reduction="none"),
    )
    for function in functions:
        classifier.criterion = Criterion(function)
        torch.testing.assert_close(classifier.loss(x, y, noise=own), function(mean.log(), y).mean())
    scaling = TargetScaling.fitted(3 * values + 1)
    regressor = SequenceRegressor(STTauLSTM(2, 6, 3), 2, variance=True, paths=4, target_scaling=scaling)
    regressor.criterion = Criterion(_distance)
    center, variance = regressor(x, noise=several)
    assert variance is not None
    spread = variance.view(4, 5, 2).mean(0) + center.view(4, 5, 2).var(0, correction=0)
    expected = Gaussian(scaling.standardize(center.view(4, 5, 2).mean(0)), spread / scaling.scale.square())
    wanted = scaling.standardize(values)
    torch.testing.assert_close(regressor.loss(x, values, noise=own), _distance(expected, wanted).mean())


def test_a_criterion_is_not_part_of_the_model() -> None:
    model = SequenceClassifier(nn.LSTM(2, 4), 2)
    before = list(model.state_dict())
    model.criterion = Criterion(nn.CrossEntropyLoss(weight=torch.ones(2), reduction="none"))
    assert list(model.state_dict()) == before
    assert model.loss(torch.randn(3, 2, 2), torch.tensor([0, 1, 1])).isfinite()


def test_outputs_of_a_row_are_averaged() -> None:
    assert float(weighted_mean(torch.tensor([[1.0, 3.0], [5.0, 7.0]]), torch.tensor([1.0, 0.5]))) == 2.5
