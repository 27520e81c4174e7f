"""The distance to the nearest training sequences."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from sttau.models import Predictor
from sttau.ood.detector import Detector

_ROWS = 1024  # that are compared at once


class KNN(Detector):
    """Distance to the k-th nearest training sequence, between features of length 1 (Sun et al., 2022).

    It assumes no shape of the distribution. The features of the training data are kept.

    Args:
        neighbors: Number k of the neighbor.
        samples: Monte Carlo samples per member.
        seed: Seed of the sampling noise.

    Example:
        >>> from sttau import SequenceClassifier, STTauLSTM
        >>> model, x = SequenceClassifier(STTauLSTM(2, 16, num_states=3), num_classes=2), torch.randn(50, 7, 2)
        >>> detector = KNN(neighbors=5).fit(model, x)
        >>> bool(detector.score(model, x).mean() < detector.score(model, x + 5).mean())
        True
    """

    name = "knn"

    def __init__(self, neighbors: int = 10, samples: int = 10, seed: int = 0) -> None:
        super().__init__(samples, seed)
        if neighbors < 1:
            raise ValueError(f"neighbors must be at least 1, got {neighbors}")
        self.neighbors = int(neighbors)

    def settings(self) -> dict[str, Any]:
        """Return the number of neighbors."""
        return {"neighbors": self.neighbors}

    def _fit(self, model: Predictor, inputs: Tensor, lengths: Tensor | None, labels: Tensor | None) -> None:
        self.tensors = {"features": F.normalize(self._features(model, inputs, lengths), dim=-1)}

    def _score(self, model: Predictor, inputs: Tensor, lengths: Tensor | None) -> Tensor:
        known = self.tensors["features"]
        place = min(self.neighbors, len(known))
        x = F.normalize(self._features(model, inputs, lengths), dim=-1)
        return torch.cat([torch.cdist(part, known).kthvalue(place, dim=1).values for part in x.split(_ROWS)])


DETECTOR = KNN
