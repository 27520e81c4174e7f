"""The part of the features that the training data does not have, as one more logit."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from sttau.checks import check_level
from sttau.models import Predictor
from sttau.ood.detector import HeadDetector


class ViM(HeadDetector):
    """Virtual-logit matching (Wang et al., 2022): length of the residual, as a logit, minus log Σ exp(logits).

    The residual is the part of the head's input outside the principal subspace of the training data.

    Args:
        share: Share of the dimensions that belong to the principal subspace.
        samples: Monte Carlo samples per member.
        seed: Seed of the sampling noise.
    """

    name = "vim"

    def __init__(self, share: float = 0.5, samples: int = 10, seed: int = 0) -> None:
        super().__init__(samples, seed)
        check_level("share", share, 0.5)
        self.share = float(share)

    def settings(self) -> dict[str, Any]:
        """Return the share of the dimensions."""
        return {"share": self.share}

    def _fit(self, model: Predictor, inputs: Tensor, lengths: Tensor | None, labels: Tensor | None) -> None:
        found: dict[str, list[Tensor]] = {"origin": [], "residual": [], "scale": []}
        for x, weight, bias in self._heads(model, inputs, lengths):
            origin = -torch.linalg.pinv(weight) @ bias  # where all logits are 0
            centered = x - origin
            _, vectors = torch.linalg.eigh(centered.T @ centered / len(x))  # in order of ascending eigenvalues
            dimensions = max(1, x.shape[1] - round(self.share * x.shape[1]))
            residual = vectors[:, :dimensions]
            lengths_of = (centered @ residual).norm(dim=-1)
            largest = (x @ weight.T + bias).amax(-1)
            scale = largest.mean() / lengths_of.mean().clamp_min(torch.finfo(torch.float64).tiny)
            for name, value in (("origin", origin), ("residual", residual), ("scale", scale.clamp_min(0))):
                found[name].append(value)
        self.tensors = {name: torch.stack(values) for name, values in found.items()}

    def _score(self, model: Predictor, inputs: Tensor, lengths: Tensor | None) -> Tensor:
        parts = []
        for number, (x, weight, bias) in enumerate(self._heads(model, inputs, lengths)):
            origin, residual, scale = (self.tensors[name][number] for name in ("origin", "residual", "scale"))
            virtual = scale * ((x - origin) @ residual).norm(dim=-1)
            parts.append(virtual - (x @ weight.T + bias).logsumexp(-1))
        return torch.stack(parts).mean(0)


DETECTOR = ViM
