"""The length of a sequence: what a detector must be compared with."""

from __future__ import annotations

import torch
from torch import Tensor

from sttau.models import Predictor
from sttau.ood.detector import Detector


class Length(Detector):
    """How unusual a sequence's length is: 0 at the median of the training data, 1 beyond its extremes.

    It reads nothing else. Where it separates the data as well as another detector does, the other may have seen the
    length only.

    Example:
        >>> from torch import nn
        >>> from sttau import SequenceClassifier
        >>> model = SequenceClassifier(nn.LSTM(2, 4), num_classes=2)
        >>> detector = Length().fit(model, torch.randn(9, 7, 2))
        >>> detector.score(model, torch.randn(1, 7, 2)).item(), detector.score(model, torch.randn(1, 3, 2)).item()
        (0.0, 1.0)
    """

    name = "length"

    def _fit(self, model: Predictor, inputs: Tensor, lengths: Tensor | None, labels: Tensor | None) -> None:
        self.tensors = {"lengths": self._lengths(inputs, lengths).sort().values}

    def _score(self, model: Predictor, inputs: Tensor, lengths: Tensor | None) -> Tensor:
        known, given = self.tensors["lengths"], self._lengths(inputs, lengths)
        at_most = torch.searchsorted(known, given, right=True)
        at_least = len(known) - torch.searchsorted(known, given)
        return 1 - (2 * torch.minimum(at_most, at_least).double() / len(known)).clamp_max(1)

    def _lengths(self, inputs: Tensor, lengths: Tensor | None) -> Tensor:
        given = torch.full((len(inputs),), inputs.shape[1]) if lengths is None else lengths
        return given.cpu().double()


DETECTOR = Length
