"""How far a sequence lies from all that a network was trained on, by what the network has made of it."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from sttau.checks import as_tensor, check_labels


class FeatureDistance:
    """Mahalanobis distance to the nearest class, in the space of features (Lee et al., 2018).

    Features of each class are taken for Gaussian, with means of their own and one covariance, which is shrunk as Ledoit
    & Wolf (2004) derive. Confidence asks on which side of a border a sequence lies; distance asks whether anything like
    it was there in training, however sure the network is. Larger means more probably out-of-distribution.

    Example:
        >>> import torch
        >>> from sttau import SequenceClassifier, STTauLSTM
        >>> from sttau.inference import features
        >>> model = SequenceClassifier(STTauLSTM(2, 16, num_states=3), num_classes=2)
        >>> x, y = torch.randn(50, 7, 2), torch.arange(50) % 2
        >>> distance = FeatureDistance().fit(features(model, x), y)
        >>> near, far = (distance(features(model, inputs)).mean() for inputs in (x, x + 5))
        >>> bool(near < far)
        True
    """

    def __init__(self) -> None:
        self._means: Tensor | None = None
        self._precision: Tensor | None = None

    def fit(self, features: Any, labels: Any) -> FeatureDistance:
        """Learn means and covariance.

        Args:
            features: (sequences, size) of training data; see :func:`sttau.inference.features`.
            labels: (sequences,) their classes.
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

    def __call__(self, features: Any) -> Tensor:
        """Return the squared distance of each to the nearest class."""
        if self._means is None or self._precision is None:
            raise RuntimeError("fit the distance to training data first")
        x = self._checked(features)
        if x.shape[1] != self._means.shape[1]:
            raise ValueError(f"features have size {x.shape[1]}, but the distance was fitted to {self._means.shape[1]}")
        apart = x[:, None] - self._means
        distances: Tensor = torch.einsum("ncf,fg,ncg->nc", apart, self._precision, apart).amin(1)
        return distances

    def _checked(self, features: Any) -> Tensor:
        x = as_tensor("features", features).to(torch.float64).cpu()
        if x.dim() != 2 or not bool(x.isfinite().all()):
            raise ValueError(f"features must be finite numbers of shape (sequences, size), got {tuple(x.shape)}")
        return x
