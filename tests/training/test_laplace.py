from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import sttau
from sttau import SequenceClassifier, SequenceRegressor, STTauLSTM
from sttau.training.laplace import best_precision, gauss_newton, laplace, log_evidence, output_curvature


def test_the_curvature_is_the_hessian_of_the_loss() -> None:
    torch.manual_seed(0)
    phi, y = torch.randn(20, 4, dtype=torch.float64), torch.randint(3, (20,))
    weights = torch.randn(12, dtype=torch.float64)

    def loss(w: torch.Tensor) -> torch.Tensor:
        return nn.functional.cross_entropy(phi @ w.view(3, 4).T, y, reduction="sum")

    expected = torch.autograd.functional.hessian(loss, weights)
    torch.testing.assert_close(gauss_newton(phi, output_curvature(phi @ weights.view(3, 4).T, False)), expected)


def test_the_curvature_of_a_regressor_is_the_expected_hessian_of_its_loss() -> None:
    """The loss is quadratic in the target, so that the mean over μ - σ and μ + σ is that over the Gaussian."""
    torch.manual_seed(0)
    phi, weights = torch.randn(20, 3, dtype=torch.float64), torch.randn(12, dtype=torch.float64)
    mean, raw = (phi @ weights.view(4, 3).T).chunk(2, dim=-1)
    deviation = (nn.functional.softplus(raw) + 1e-6).sqrt()

    def loss(w: torch.Tensor) -> torch.Tensor:
        center, own = (phi @ w.view(4, 3).T).chunk(2, dim=-1)
        variance = nn.functional.softplus(own) + 1e-6
        both = [((center - mean - sign * deviation).square() / variance + variance.log()).sum() for sign in (-1, 1)]
        return 0.25 * (both[0] + both[1])

    expected = torch.autograd.functional.hessian(loss, weights)
    torch.testing.assert_close(gauss_newton(phi, output_curvature(phi @ weights.view(4, 3).T, True)), expected)


def test_the_draws_have_the_covariance_of_the_posterior() -> None:
    torch.manual_seed(0)
    model, x = SequenceClassifier(nn.GRU(2, 3), 2), torch.randn(200, 4, 2)
    drawn = laplace(model, x, members=2000, prior_precision=0.5).members
    heads = (
        torch.stack([torch.cat([m.head.weight, m.head.bias[:, None]], 1).flatten() for m in drawn]).detach().double()
    )
    with torch.no_grad():
        read = model.features(x).double()
    phi = torch.cat([read, torch.ones(200, 1)], 1)
    precision = gauss_newton(phi, output_curvature(model(x).detach().double(), False)) + 0.5 * torch.eye(8)
    covariance = torch.linalg.inv(precision)
    assert float((heads.T.cov() - covariance).norm() / covariance.norm()) < 0.1
    center = torch.cat([model.head.weight, model.head.bias[:, None]], 1).flatten().detach().double()
    assert float((heads.mean(0) - center).norm()) < 0.1 * float(covariance.trace().sqrt())


def test_the_chosen_precision_maximizes_the_evidence() -> None:
    """Of a linear model with curvature c: the evidence has its maximum where d = δ |w|² + Σ δ / (c + δ)."""
    mean, curvature = torch.tensor([0.3, -0.2, 0.1, 0.4], dtype=torch.float64), torch.full((4,), 50.0).double().diag()
    found = best_precision(curvature, mean)
    balance = found * float(mean.square().sum()) + 4 * found / (50 + found)
    assert balance == pytest.approx(4, rel=0.25)  # the grid has steps of a quarter


def _problem() -> tuple[torch.Tensor, torch.Tensor, nn.Linear, torch.Tensor, torch.Tensor]:
    """Features with a 1, labels, a head, its weights as one vector, and the curvature."""
    torch.manual_seed(0)
    phi, labels, head = torch.randn(50, 4, dtype=torch.float64), torch.randint(3, (50,)), nn.Linear(4, 3).double()
    extended = torch.cat([phi, torch.ones(50, 1)], 1)
    mean = torch.cat([head.weight, head.bias[:, None]], 1).detach()
    return extended, labels, head, mean.flatten(), gauss_newton(extended, output_curvature(extended @ mean.T, False))


def test_the_evidence_is_that_of_a_dense_determinant() -> None:
    """log N(w; 0, δ⁻¹) + ½ P log 2π - ½ log det(H + δ), with the Hessian of automatic differentiation."""
    phi, labels, _, mean, curvature = _problem()

    def loss(w: torch.Tensor) -> torch.Tensor:
        return nn.functional.cross_entropy(phi @ w.view(3, 5).T, labels, reduction="sum")

    hessian, precisions = (
        torch.autograd.functional.hessian(loss, mean),
        torch.tensor([1e-3, 0.3, 20.0], dtype=torch.float64),
    )
    expected = [
        torch.distributions.Normal(0.0, delta.rsqrt()).log_prob(mean).sum()
        + 0.5 * len(mean) * math.log(2 * math.pi)
        - 0.5 * torch.linalg.slogdet(hessian + delta * torch.eye(15)).logabsdet
        for delta in precisions
    ]
    torch.testing.assert_close(log_evidence(curvature, mean, precisions), torch.stack(expected))


@pytest.mark.filterwarnings("ignore:::")  # of what laplace-torch imports
def test_curvature_and_evidence_are_those_of_laplace_torch() -> None:
    laplace_torch = pytest.importorskip("laplace")
    phi, labels, head, mean, curvature = _problem()
    model = nn.Sequential(nn.Identity(), head)
    other = laplace_torch.Laplace(
        model, "classification", subset_of_weights="last_layer", hessian_structure="full",
        backend=laplace_torch.curvature.CurvlinopsGGN,
    )  # fmt: skip
    other.fit(DataLoader(TensorDataset(phi[:, :-1], labels), batch_size=20))
    weights = torch.arange(12).view(3, 4)
    places = torch.cat([weights, 12 + torch.arange(3)[:, None]], 1).flatten()  # all biases come last there
    torch.testing.assert_close(other.H[places][:, places], curvature)
    precisions = torch.tensor([0.1, 1.0, 10.0], dtype=torch.float64)
    expected = torch.stack([other.log_marginal_likelihood(prior_precision=value).detach() for value in precisions])
    likelihood = -nn.functional.cross_entropy(head(phi[:, :-1]), labels, reduction="sum").detach()
    torch.testing.assert_close(likelihood + log_evidence(curvature, mean, precisions), expected)


def test_the_ensemble_is_less_sure_between_the_classes_and_is_saved(tmp_path: Path) -> None:
    torch.manual_seed(0)
    y = torch.arange(60) % 2
    x = 0.3 * torch.randn(60, 6, 2) + (2.0 * y - 1)[:, None, None]
    model = SequenceClassifier(nn.LSTM(2, 16), 2)
    sttau.fit(model, (x, y), updates=150, seed=0, progress=False)
    ensemble = laplace(model, x, members=20)
    unsure = torch.zeros(20, 6, 2)
    unsure[:, :, 0], unsure[:, :, 1] = 1.0, -1.0  # features of both classes
    plain, drawn = (sttau.predict(one, unsure).confidence.mean() for one in (model, ensemble))
    assert drawn < plain
    assert (sttau.predict(ensemble, x).label == y).double().mean() > 0.95
    assert bool((sttau.predict(ensemble, unsure).epistemic > 0).all())
    again = sttau.load(ensemble.save(tmp_path / "laplace.safetensors"))
    assert torch.equal(sttau.predict(again, x).mean, sttau.predict(ensemble, x).mean)


def test_what_cannot_be_approximated_is_refused() -> None:
    x = torch.randn(5, 4, 2)
    with pytest.raises(ValueError, match="STTauLSTM samples already"):
        laplace(SequenceClassifier(STTauLSTM(2, 4, 3), 2), x)
    with pytest.raises(TypeError, match="one classifier with a dense head"):
        laplace(SequenceRegressor(nn.LSTM(2, 4)), x)
    with pytest.raises(ValueError, match="prior_precision must be positive"):
        laplace(SequenceClassifier(nn.LSTM(2, 4), 2), x, prior_precision=0.0)
    with pytest.raises(ValueError, match="weights, more than 4,096"):
        laplace(SequenceClassifier(nn.LSTM(2, 500), 10), x)
