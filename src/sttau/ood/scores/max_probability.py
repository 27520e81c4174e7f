"""The largest class probability as an OOD score."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from sttau.inference import Prediction
from sttau.ood.scores.samples import as_samples


def max_probability_score(prediction: Any) -> Tensor:
    """1 - largest probability of the mean over samples (Hendrycks & Gimpel, 2017; "max. probability" in the paper).

    Example:
        >>> max_probability_score([[0.5, 0.5], [1.0, 0.0]]).tolist()
        [0.5, 0.0]
    """
    mean = prediction.mean if isinstance(prediction, Prediction) else as_samples(prediction).mean(0)
    return 1 - mean.amax(-1)


SCORES = {"max-probability": max_probability_score}
