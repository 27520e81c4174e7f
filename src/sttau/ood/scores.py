"""OOD scores of predictions. For all of them, larger means more probably out-of-distribution.

Each takes a :class:`~sttau.Prediction`, or probabilities, (predictions, classes) or (samples, predictions, classes),
and returns one score per prediction.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from sttau.checks import check_probabilities
from sttau.inference import Prediction, entropy


def max_probability_score(prediction: Any) -> Tensor:
    """1 - largest probability of the mean over samples (Hendrycks & Gimpel, 2017; "max. probability" in the paper).

    Example:
        >>> max_probability_score([[0.5, 0.5], [1.0, 0.0]]).tolist()
        [0.5, 0.0]
    """
    mean = prediction.mean if isinstance(prediction, Prediction) else _samples(prediction).mean(0)
    return 1 - mean.amax(-1)


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
        samples = _samples(prediction)
    if len(samples) < 2:
        raise ValueError(f"the variance needs at least 2 samples, got {len(samples)}; draw more")
    return samples.amax(-1).var(0, correction=0)


def entropy_score(prediction: Any) -> Tensor:
    """Entropy of the mean over samples, in bits: ``prediction.total``.

    Example:
        >>> entropy_score([[0.5, 0.5], [1.0, 0.0]]).tolist()
        [1.0, 0.0]
    """
    return prediction.total if isinstance(prediction, Prediction) else entropy(_samples(prediction).mean(0))


def mutual_information_score(prediction: Any) -> Tensor:
    """Mutual information of label and sample, in bits: ``prediction.epistemic``, 0 for a single sample.

    Example:
        >>> mutual_information_score([[[1.0, 0.0], [0.5, 0.5]], [[0.0, 1.0], [0.5, 0.5]]]).tolist()
        [1.0, 0.0]
    """
    if isinstance(prediction, Prediction):
        return prediction.epistemic
    samples = _samples(prediction)
    return (entropy(samples.mean(0)) - entropy(samples).mean(0)).clamp_min(0)


SCORES: dict[str, Callable[[Any], Tensor]] = {
    "max-probability": max_probability_score,
    "variance": variance_score,
    "entropy": entropy_score,
    "mutual-information": mutual_information_score,
}


def _samples(probabilities: Any) -> Tensor:
    """Return (samples, predictions, classes) in float64."""
    p = check_probabilities("probabilities", probabilities, (2, 3)).to(torch.float64)
    return p if p.dim() == 3 else p[None]
