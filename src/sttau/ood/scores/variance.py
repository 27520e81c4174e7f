"""The variance over samples of the largest class probability as an OOD score."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from sttau.inference import Prediction
from sttau.ood.scores.samples import as_samples


def variance_score(prediction: Any) -> Tensor:
    """Variance over samples of the largest probability ("variance of max. probability" in the paper, §4.3).

    It needs the samples: call ``predict`` with ``keep_samples=True``. Samples that are confident of different classes
    have no such variance; :func:`mutual_information_score` detects them.

    Example:
        >>> variance_score([[[0.5, 0.5]], [[1.0, 0.0]]]).tolist()
        [0.0625]
    """
    if isinstance(prediction, Prediction):
        if prediction.samples is None:
            raise ValueError(
                "prediction holds no samples, over which the variance is taken; call predict with keep_samples=True, "
                "or for exact inference use mutual_information_score"
            )
        samples = prediction.samples
    else:
        samples = as_samples(prediction)
    if len(samples) < 2:
        raise ValueError(f"the variance needs at least 2 samples, got {len(samples)}; draw more")
    return samples.amax(-1).var(0, correction=0)


SCORES = {"variance": variance_score}
