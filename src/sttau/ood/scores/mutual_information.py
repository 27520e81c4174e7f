"""The mutual information of label and sample as an OOD score."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from sttau.inference import Prediction, entropy
from sttau.ood.scores.samples import as_samples


def mutual_information_score(prediction: Any) -> Tensor:
    """Mutual information of label and sample, in bits: ``prediction.epistemic``, 0 for a single sample.

    Example:
        >>> mutual_information_score([[[1.0, 0.0], [0.5, 0.5]], [[0.0, 1.0], [0.5, 0.5]]]).tolist()
        [1.0, 0.0]
    """
    if isinstance(prediction, Prediction):
        return prediction.epistemic
    samples = as_samples(prediction)
    return (entropy(samples.mean(0)) - entropy(samples).mean(0)).clamp_min(0)


SCORES = {"mutual-information": mutual_information_score}
