"""The last-layer Laplace approximation: a Gaussian over the weights of a trained head."""

from __future__ import annotations

import math
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from sttau.checks import as_integer
from sttau.inference import features
from sttau.inference.inputs import as_inputs
from sttau.models import DeepEnsemble, FixedLabels, SequenceClassifier, SequenceModel, SequenceRegressor
from sttau.models.ensemble import with_own_head
from sttau.seeds import derive_seed
from sttau.training.options import TrainOptions
from sttau.training.weight_distribution import WeightDistribution

_LARGEST = 4096  # weights of a head whose covariance is computed
_ROWS = 256  # sequences whose curvature is computed at once
_GRID = torch.logspace(-4, 4, 81, dtype=torch.float64)  # precisions of the prior that are compared


def laplace(
    model: SequenceModel,
    train: Any,
    lengths: Any = None,
    *,
    members: int = 10,
    prior_precision: float | None = None,
    seed: int = 0,
) -> DeepEnsemble:
    """Return an ensemble whose heads are drawn from the Laplace approximation at the head of a trained network.

    The distribution of the head's weights given the training data is approximated by a Gaussian: its mean are the
    trained weights, its precision the generalized Gauss-Newton matrix of the negative log-likelihood plus that of a
    prior (Daxberger et al., 2021; Kristiadi et al., 2020). Weights of sequences are not considered. The members share
    everything but their heads: in a prediction the layer runs once, and a file holds it once. The result is calibrated,
    saved and exported as any ensemble; if it is trained further, each member gets weights of its own.

    Args:
        model: A trained classifier, or regressor with a variance, on a layer that draws nothing, such as ``nn.LSTM``.
        train: Its training data: a ``SequenceDataset``, or inputs.
        lengths: (sequences,) valid steps; only with inputs.
        members: Number of heads to draw.
        prior_precision: Precision of the Gaussian prior; by default the one with the largest marginal likelihood.
        seed: Seed of the draws.

    Example:
        >>> from torch import nn
        >>> x = torch.randn(100, 5, 2)
        >>> model = SequenceClassifier(nn.GRU(2, 8), num_classes=3)
        >>> ensemble = laplace(model, x, members=4)
        >>> len(ensemble.members), bool((ensemble.members[0].head.weight == model.head.weight).all())
        (4, False)
    """
    members = as_integer("members", members, 1)
    phi, mean, inner = _outputs(model, train, lengths)
    curvature = gauss_newton(phi, inner)
    if prior_precision is None:
        prior_precision = best_precision(curvature, mean)
    elif not (prior_precision > 0 and math.isfinite(prior_precision)):
        raise ValueError(f"prior_precision must be positive and finite, got {prior_precision}")
    values, vectors = torch.linalg.eigh(curvature)
    root = vectors * (values.clamp_min(0) + prior_precision).rsqrt() @ vectors.T  # unlike eigenvectors, unique
    generator = torch.Generator().manual_seed(derive_seed(seed, "laplace"))
    drawn, body = [], deepcopy(model)
    body.decisions = None
    for _ in range(members):
        head = mean + root @ torch.randn(len(mean), generator=generator, dtype=torch.float64)
        weights = head.view(len(model.head.weight), -1)
        member = with_own_head(body)
        with torch.no_grad():
            member.head.weight.copy_(weights[:, :-1])
            member.head.bias.copy_(weights[:, -1])
        drawn.append(member)
    return DeepEnsemble(drawn)


def gauss_newton(features: Tensor, inner: Tensor) -> Tensor:
    """Return Σ_n H_n ⊗ φ_n φ_nᵀ, the curvature of the negative log-likelihood in the weights of a head.

    Args:
        features: (sequences, size) inputs φ of the head, with a 1 for its bias.
        inner: (sequences, outputs, outputs) curvature H in the outputs of the head; see :func:`output_curvature`.

    Returns:
        (outputs · size, outputs · size) in float64.
    """
    outputs, size = inner.shape[1], features.shape[1]
    total = torch.zeros(outputs, size, outputs, size, dtype=torch.float64)
    for phi, part in zip(features.split(_ROWS), inner.split(_ROWS), strict=True):
        total += torch.einsum("nab,ni,nj->aibj", part, phi, phi)
    return total.reshape(outputs * size, outputs * size)


def output_curvature(outputs: Tensor, is_regression: bool) -> Tensor:
    """Return the expected curvature of the negative log-likelihood in the outputs of a head, for each sequence.

    Of a classifier it is diag(p) - p pᵀ. The outputs of a regressor are means and, before a softplus, variances v: it
    is diagonal, 1 / v for a mean and (dv / dr)² / (2 v²) for the output r of a variance.

    Args:
        outputs: (sequences, outputs) of the head.
        is_regression: Whether they are means and variances, or else logits.
    """
    if not is_regression:
        p = outputs.softmax(-1)
        return torch.diag_embed(p) - p[:, :, None] * p[:, None, :]
    raw = outputs.chunk(2, dim=-1)[1]
    variance = F.softplus(raw) + 1e-6
    return torch.diag_embed(torch.cat([1 / variance, 0.5 * (raw.sigmoid() / variance).square()], dim=-1))


def best_precision(curvature: Tensor, mean: Tensor) -> float:
    """Return the precision of the prior, on a grid, that maximizes the marginal likelihood.

    Args:
        curvature: Gauss-Newton matrix.
        mean: Trained weights.
    """
    return float(_GRID[log_evidence(curvature, mean, _GRID).argmax()])


def log_evidence(curvature: Tensor, mean: Tensor, precisions: Tensor) -> Tensor:
    """Return the Laplace approximation of the log marginal likelihood at every precision of the prior.

    The likelihood of the training data does not depend on the precision and is left out.

    Args:
        curvature: Gauss-Newton matrix.
        mean: Trained weights.
        precisions: (n,) precisions of the Gaussian prior.
    """
    values = torch.linalg.eigvalsh(curvature).clamp_min(0)
    determinants = (values + precisions[:, None]).log().sum(1)
    evidence: Tensor = 0.5 * (len(mean) * precisions.log() - precisions * mean.square().sum() - determinants)
    return evidence


def check_laplace(model: SequenceModel) -> None:
    """Raise where the head of a network has no Laplace approximation."""
    is_regressor = isinstance(model, SequenceRegressor) and model.variance
    if not (is_regressor or isinstance(model, SequenceClassifier)) or isinstance(model.head, FixedLabels):
        raise TypeError(
            f"laplace needs one classifier with a dense head, or a regressor with variance=True, got "
            f"{type(model).__name__}"
        )
    if model.layer.can_sample:
        raise ValueError(
            f"laplace needs a layer that draws nothing, such as nn.LSTM; {model.layer.kind} samples already"
        )
    size = model.head.weight.numel() + len(model.head.weight)
    if size > _LARGEST:
        raise ValueError(f"the head has {size:,} weights, more than {_LARGEST:,}; choose a smaller hidden_size")


@dataclass(frozen=True)
class LastLayerLaplace(WeightDistribution):
    """The Gaussian over the weights of a head that :func:`laplace` draws from, with its settings."""

    prior_precision: float | None = None

    def check(self, network: SequenceModel) -> None:
        """Raise where the head of a network has no Laplace approximation."""
        check_laplace(network)

    def draw(
        self,
        network: SequenceModel,
        inputs: Tensor,
        targets: Tensor,
        lengths: Tensor | None,
        *,
        members: int,
        options: TrainOptions,
    ) -> DeepEnsemble:
        """Return the ensemble of :func:`laplace`."""
        return laplace(
            network, inputs, lengths, members=members, prior_precision=self.prior_precision, seed=options.seed
        )


def _outputs(model: SequenceModel, train: Any, lengths: Any) -> tuple[Tensor, Tensor, Tensor]:
    """What the head reads, with a 1 for its bias; its weights, as one vector; the curvature in its outputs."""
    check_laplace(model)
    weight, bias = (value.detach().cpu().double() for value in (model.head.weight, model.head.bias))
    mean = torch.cat([weight, bias[:, None]], dim=1)
    inputs, lengths = as_inputs(model, train, lengths)
    read = features(model, inputs, lengths, readout=None).cpu().double()
    phi = torch.cat([read, torch.ones(len(read), 1, dtype=torch.float64)], dim=1)
    return phi, mean.flatten(), output_curvature(phi @ mean.T, isinstance(model, SequenceRegressor))


POSTERIOR = LastLayerLaplace
