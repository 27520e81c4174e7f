"""The Mahalanobis distance to the nearest class."""

from __future__ import annotations

import torch
from torch import Tensor

from sttau.models import Predictor
from sttau.ood.detector import Detector
from sttau.ood.feature_distance import FeatureDistance


class Mahalanobis(Detector):
    """:class:`sttau.ood.FeatureDistance` of the model's features (Lee et al., 2018).

    Without labels of the training data, and for a regressor, all training data is one class.
    """

    name = "mahalanobis"

    def _fit(self, model: Predictor, inputs: Tensor, lengths: Tensor | None, labels: Tensor | None) -> None:
        if labels is None or labels.is_floating_point():
            labels = torch.zeros(len(inputs), dtype=torch.int64)
        distance = FeatureDistance().fit(self._features(model, inputs, lengths), labels)
        self.tensors = distance.state()

    def _score(self, model: Predictor, inputs: Tensor, lengths: Tensor | None) -> Tensor:
        return FeatureDistance(**self.tensors).score(self._features(model, inputs, lengths))


DETECTOR = Mahalanobis
