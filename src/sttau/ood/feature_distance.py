"""Distance of a sequence from the training data in the feature space of a network."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from sttau.checks import as_tensor, check_labels


class FeatureDistance:
    """Mahalanobis distance to the nearest class, in the space of features (Lee et al., 2018).

    The features of each class are modeled as Gaussian, with one mean per class and a shared covariance with Ledoit-Wolf
    shrinkage (2004). Confidence depends on the distance to a decision boundary; this distance depends on whether
    similar sequences occurred in training, whatever the confidence. Larger means more probably out-of-distribution.
    :class:`sttau.ood.Mahalanobis` is the same as a detector for models.

    Args:
        means: (classes, size) means; set by ``fit``.
        precision: (size, size) inverse of the covariance; set by ``fit``.

    Example:
        >>> import torch
        >>> from sttau import SequenceClassifier, STTauLSTM
        >>> from sttau.inference import features
        >>> model = SequenceClassifier(STTauLSTM(2, 16, num_states=3), num_classes=2)
        >>> x, y = torch.randn(50, 7, 2), torch.arange(50) % 2
        >>> distance = FeatureDistance().fit(features(model, x), y)
        >>> near, far = (distance.score(features(model, inputs)).mean() for inputs in (x, x + 5))
        >>> bool(near < far)
        True
    """

    def __init__(self, means: Tensor | None = None, precision: Tensor | None = None) -> None:
        self._means, self._precision = means, precision

    def fit(self, features: Any, labels: Any) -> FeatureDistance:
        """Estimate means and covariance.

        Args:
            features: (sequences, size) features of training data; see :func:`sttau.inference.features`.
            labels: (sequences,) classes.
        """
        from sklearn.covariance import LedoitWolf

        x = self._checked(features)
        labels = as_tensor("labels", labels)
        y = check_labels(labels, len(x), int(labels.max()) + 1).cpu()
        known = y.unique()
        self._means = torch.stack([x[y == label].mean(0) for label in known.tolist()])
        places = torch.searchsorted(known, y)
        shrunk = LedoitWolf(assume_centered=True).fit((x - self._means[places]).numpy())
        self._precision = torch.from_numpy(shrunk.precision_)
        return self

    def score(self, features: Any) -> Tensor:
        """Return (sequences,) squared distances to the nearest class, larger for OOD input.

        Args:
            features: (sequences, size).
        """
        means, precision = self.state().values()
        x = self._checked(features)
        if x.shape[1] != means.shape[1]:
            raise ValueError(f"features have size {x.shape[1]}, but the distance was fitted to {means.shape[1]}")
        apart = x[:, None] - means
        distances: Tensor = torch.einsum("ncf,fg,ncg->nc", apart, precision, apart).amin(1)
        return distances

    def state(self) -> dict[str, Tensor]:
        """Return the arguments that construct this fitted distance."""
        if self._means is None or self._precision is None:
            raise RuntimeError("this FeatureDistance is not fitted; call fit with features of training data first")
        return {"means": self._means, "precision": self._precision}

    def _checked(self, features: Any) -> Tensor:
        x = as_tensor("features", features).to(torch.float64).cpu()
        if x.dim() != 2 or not bool(x.isfinite().all()):
            raise ValueError(f"features must be finite, of shape (sequences, size), got {tuple(x.shape)}")
        return x
