"""The energy after large activations are clipped."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from sttau.models import Predictor
from sttau.ood.detector import HeadDetector


class ReAct(HeadDetector):
    """Energy of logits whose inputs are clipped at a quantile of the training data's (Sun et al., 2021).

    It was made for networks whose activations grow without bound on OOD input; those of recurrent layers are bounded,
    so less is gained.

    Args:
        quantile: Fraction of the activations on training data that are not clipped.
        samples: Monte Carlo samples per member.
        seed: Seed of the sampling noise.
    """

    name = "react"

    def __init__(self, quantile: float = 0.9, samples: int = 10, seed: int = 0) -> None:
        super().__init__(samples, seed)
        if not 0 < quantile <= 1:
            raise ValueError(f"quantile must be in (0, 1], got {quantile}")
        self.quantile = float(quantile)

    def settings(self) -> dict[str, Any]:
        """Return the quantile."""
        return {"quantile": self.quantile}

    def _fit(self, model: Predictor, inputs: Tensor, lengths: Tensor | None, labels: Tensor | None) -> None:
        limits = []
        for x, _, _ in self._heads(model, inputs, lengths):
            values = x.flatten().sort().values
            limits.append(values[min(len(values) - 1, int(self.quantile * len(values)))])
        self.tensors = {"limit": torch.stack(limits)}

    def _score(self, model: Predictor, inputs: Tensor, lengths: Tensor | None) -> Tensor:
        limits = self.tensors["limit"].tolist()
        parts = [
            -(x.clamp_max(limit) @ weight.T + bias).logsumexp(-1)
            for limit, (x, weight, bias) in zip(limits, self._heads(model, inputs, lengths), strict=True)
        ]
        return torch.stack(parts).mean(0)


DETECTOR = ReAct
