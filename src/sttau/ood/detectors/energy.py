"""The energy of the logits."""

from __future__ import annotations

import torch
from torch import Tensor

from sttau.models import Predictor
from sttau.ood.detector import HeadDetector


class Energy(HeadDetector):
    """-log Σ exp(logits) (Liu et al., 2020), averaged over members; nothing is fitted.

    Unlike the largest probability it depends on the size of the logits, not only on their differences.

    Example:
        >>> from sttau import SequenceClassifier, STTauLSTM
        >>> model, x = SequenceClassifier(STTauLSTM(2, 16, num_states=3), num_classes=2), torch.randn(50, 7, 2)
        >>> detector = Energy().fit(model, x)
        >>> threshold = detector.choose_threshold(model, x, false_alarms=0.1)
        >>> int(detector.is_ood(model, x).sum())
        4
    """

    name = "energy"

    def _fit(self, model: Predictor, inputs: Tensor, lengths: Tensor | None, labels: Tensor | None) -> None:
        return None

    def _score(self, model: Predictor, inputs: Tensor, lengths: Tensor | None) -> Tensor:
        parts = [-(x @ weight.T + bias).logsumexp(-1) for x, weight, bias in self._heads(model, inputs, lengths)]
        return torch.stack(parts).mean(0)


DETECTOR = Energy
