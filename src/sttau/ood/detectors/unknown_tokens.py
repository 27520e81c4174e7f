"""The share of unknown words."""

from __future__ import annotations

from torch import Tensor

from sttau.models import Predictor
from sttau.models.base import UNKNOWN
from sttau.ood.detector import Detector
from sttau.padding import valid_steps


class UnknownTokens(Detector):
    """Share of a text's tokens that are not in the vocabulary. It reads the input alone, not the network."""

    name = "unknown-tokens"

    def check(self, model: Predictor) -> None:
        """Refuse models of features."""
        if not model.reads_tokens:
            raise ValueError("unknown-tokens needs a model of token ids; this one reads features")

    def _fit(self, model: Predictor, inputs: Tensor, lengths: Tensor | None, labels: Tensor | None) -> None:
        return None

    def _score(self, model: Predictor, inputs: Tensor, lengths: Tensor | None) -> Tensor:
        unknown = (inputs == UNKNOWN).double()
        if lengths is None:
            return unknown.mean(1)
        return (unknown * valid_steps(inputs, lengths)).sum(1) / lengths.to(inputs.device)


DETECTOR = UnknownTokens
