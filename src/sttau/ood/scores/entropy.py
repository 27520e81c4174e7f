"""The entropy of the mean prediction as an OOD score."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from sttau.inference import Prediction, entropy
from sttau.ood.scores.samples import as_samples


def entropy_score(prediction: Any) -> Tensor:
    """Entropy of the mean over samples, in bits: ``prediction.total``.

    Example:
        >>> entropy_score([[0.5, 0.5], [1.0, 0.0]]).tolist()
        [1.0, 0.0]
    """
    return prediction.total if isinstance(prediction, Prediction) else entropy(as_samples(prediction).mean(0))


SCORES = {"entropy": entropy_score}
