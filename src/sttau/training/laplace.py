"""The last-layer Laplace approximation: a Gaussian over the weights of a trained classifier's head."""

from __future__ import annotations

import math
from copy import deepcopy
from typing import Any

import torch
from torch import Tensor

from sttau.checks import as_integer
from sttau.inference import features
from sttau.inference.inputs import as_inputs
from sttau.models import DeepEnsemble, FixedLabels, SequenceClassifier
from sttau.seeds import derive_seed

_LARGEST = 4096  # weights of a head whose covariance is computed
_ROWS = 256  # sequences whose curvature is computed at once
_GRID = torch.logspace(-4, 4, 81, dtype=torch.float64)  # precisions of the prior that are compared


def laplace(
    model: SequenceClassifier,
    train: Any,
    lengths: Any = None,
    *,
    members: int = 10,
    prior_precision: float | None = None,
    seed: int = 0,
) -> DeepEnsemble:
    """Return an ensemble whose heads are drawn from the Laplace approximation at a trained classifier's head.

    The distribution of the head's weights given the training data is approximated by a Gaussian: its mean are the
    trained weights, its precision the generalized Gauss-Newton matrix of the loss plus that of a prior (Daxberger et
    al., 2021; Kristiadi et al., 2020). All other weights are shared by value. The result predicts, is calibrated,
    saved and exported as any ensemble.

    Args:
        model: A trained classifier on a layer that draws nothing, such as ``nn.LSTM``.
        train: Its training data: a ``SequenceDataset``, or inputs.
        lengths: (sequences,) valid steps; only with inputs.
        members: Number of heads that are drawn.
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
    phi, mean, p = _outputs(model, train, lengths)
    curvature = gauss_newton(phi, p)
    if prior_precision is None:
        prior_precision = best_precision(curvature, mean)
    elif not (prior_precision > 0 and math.isfinite(prior_precision)):
        raise ValueError(f"prior_precision must be positive and finite, got {prior_precision}")
    values, vectors = torch.linalg.eigh(curvature)
    root = vectors * (values.clamp_min(0) + prior_precision).rsqrt()
    generator = torch.Generator().manual_seed(derive_seed(seed, "laplace"))
    drawn = []
    for _ in range(members):
        head = mean + root @ torch.randn(len(mean), generator=generator, dtype=torch.float64)
        weights = head.view(model.num_classes, -1)
        member = deepcopy(model)
        member.decisions = None
        with torch.no_grad():
            member.head.weight.copy_(weights[:, :-1])
            member.head.bias.copy_(weights[:, -1])
        drawn.append(member)
    return DeepEnsemble(drawn)


def gauss_newton(features: Tensor, probabilities: Tensor) -> Tensor:
    """Return Σ_n (diag(p_n) - p_n p_nᵀ) ⊗ φ_n φ_nᵀ, the curvature of the cross-entropy in the weights of a head.

    Args:
        features: (sequences, size) inputs φ of the head, with a 1 for its bias.
        probabilities: (sequences, classes).

    Returns:
        (classes · size, classes · size) in float64.
    """
    classes, size = probabilities.shape[1], features.shape[1]
    total = torch.zeros(classes, size, classes, size, dtype=torch.float64)
    for phi, p in zip(features.split(_ROWS), probabilities.split(_ROWS), strict=True):
        inner = torch.diag_embed(p) - p[:, :, None] * p[:, None, :]
        total += torch.einsum("nab,ni,nj->aibj", inner, phi, phi)
    return total.reshape(classes * size, classes * size)


def best_precision(curvature: Tensor, mean: Tensor) -> float:
    """Return the precision of the prior that maximizes the Laplace approximation of the marginal likelihood.

    The likelihood of the training data does not depend on the precision and is left out.

    Args:
        curvature: Gauss-Newton matrix.
        mean: Trained weights.
    """
    values = torch.linalg.eigvalsh(curvature).clamp_min(0)
    evidence = (
        -0.5 * _GRID * mean.square().sum()
        + 0.5 * len(mean) * _GRID.log()
        - 0.5 * (values + _GRID[:, None]).log().sum(1)
    )
    return float(_GRID[evidence.argmax()])


def _outputs(model: SequenceClassifier, train: Any, lengths: Any) -> tuple[Tensor, Tensor, Tensor]:
    """What the head reads, with a 1 for its bias; its weights, as one vector; the probabilities."""
    if not isinstance(model, SequenceClassifier) or isinstance(model.head, FixedLabels):
        raise TypeError(f"laplace needs one classifier with a dense head, got {type(model).__name__}")
    if model.layer.can_sample:
        raise ValueError(
            f"laplace needs a layer that draws nothing, such as nn.LSTM; {model.layer.kind} samples already"
        )
    weight, bias = (value.detach().cpu().double() for value in (model.head.weight, model.head.bias))
    mean = torch.cat([weight, bias[:, None]], dim=1)
    if mean.numel() > _LARGEST:
        raise ValueError(f"the head has {mean.numel():,} weights, more than {_LARGEST:,}; choose a smaller hidden_size")
    inputs, lengths = as_inputs(model, train, lengths)
    read = features(model, inputs, lengths, readout=None).double()
    phi = torch.cat([read, torch.ones(len(read), 1, dtype=torch.float64)], dim=1)
    return phi, mean.flatten(), (phi @ mean.T).softmax(-1)
