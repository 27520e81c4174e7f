"""The scores of predictions as detectors."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from sttau.inference import predict
from sttau.models import Predictor
from sttau.ood.detector import Detector
from sttau.ood.scores import SCORES


class PredictionScore(Detector):
    """A score of :data:`sttau.ood.SCORES` as a detector; nothing is fitted.

    Args:
        score: Name of the score.
        samples: Monte Carlo samples per member.
        seed: Seed of the sampling noise.
    """

    name = "prediction-score"

    def __init__(self, score: str = "max-probability", samples: int = 10, seed: int = 0) -> None:
        super().__init__(samples, seed)
        if score not in SCORES:
            raise ValueError(f"score must be one of {', '.join(SCORES)}, got {score!r}")
        self.of = score

    def settings(self) -> dict[str, Any]:
        """Return the name of the score."""
        return {"score": self.of}

    def check(self, model: Predictor) -> None:
        """Refuse regressors."""
        if model.task != "classification":
            raise ValueError(f"{self.of} is a score of class probabilities; for a regressor use mahalanobis or knn")

    def _fit(self, model: Predictor, inputs: Tensor, lengths: Tensor | None, labels: Tensor | None) -> None:
        return None

    def _score(self, model: Predictor, inputs: Tensor, lengths: Tensor | None) -> Tensor:
        return SCORES[self.of](predict(model, inputs, lengths, self.samples, self.seed, keep_samples=True))


DETECTOR = PredictionScore
