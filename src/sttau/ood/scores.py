"""Scores of strangeness. One orientation everywhere: larger means more probably out-of-distribution.

Each takes a :class:`~sttau.Prediction`, or probabilities, (predictions, classes) or (runs, predictions, classes), and
returns one number for each prediction.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from sttau.checks import check_probabilities
from sttau.inference import Prediction, entropy


def max_probability_score(prediction: Any) -> Tensor:
    """1 - largest probability of the mean over runs (Hendrycks & Gimpel, 2017; the paper's "max. probability").

    Example:
        >>> max_probability_score([[0.5, 0.5], [1.0, 0.0]]).tolist()
        [0.5, 0.0]
    """
    mean = prediction.mean if isinstance(prediction, Prediction) else _runs(prediction).mean(0)
    return 1 - mean.amax(-1)


def variance_score(prediction: Any) -> Tensor:
    """Variance over runs of each run's largest probability (the paper's "variance of max. probability", §4.3).

    Needs single runs: call ``predict`` with ``keep_samples=True``. Runs that are each sure of another class have no
    such variance; :func:`mutual_information_score` sees them.

    Example:
        >>> variance_score([[[0.5, 0.5]], [[1.0, 0.0]]]).tolist()
        [0.0625]
    """
    if isinstance(prediction, Prediction):
        if prediction.samples is None:
            raise ValueError(
                "prediction holds no single runs, over which the variance is taken; call predict with "
                "keep_samples=True, or for exact inference use mutual_information_score"
            )
        runs = prediction.samples
    else:
        runs = _runs(prediction)
    if len(runs) < 2:
        raise ValueError(f"the variance is taken over runs and needs at least 2, got {len(runs)}; draw more samples")
    return runs.amax(-1).var(0, correction=0)


def entropy_score(prediction: Any) -> Tensor:
    """Entropy of the mean over runs, in bits: ``prediction.total``.

    Example:
        >>> entropy_score([[0.5, 0.5], [1.0, 0.0]]).tolist()
        [1.0, 0.0]
    """
    return prediction.total if isinstance(prediction, Prediction) else entropy(_runs(prediction).mean(0))


def mutual_information_score(prediction: Any) -> Tensor:
    """Mutual information of label and run, in bits: ``prediction.epistemic``, 0 for a single run.

    Example:
        >>> mutual_information_score([[[1.0, 0.0], [0.5, 0.5]], [[0.0, 1.0], [0.5, 0.5]]]).tolist()
        [1.0, 0.0]
    """
    if isinstance(prediction, Prediction):
        return prediction.epistemic
    runs = _runs(prediction)
    return (entropy(runs.mean(0)) - entropy(runs).mean(0)).clamp_min(0)


SCORES: dict[str, Callable[[Any], Tensor]] = {
    "max-probability": max_probability_score,
    "variance": variance_score,
    "entropy": entropy_score,
    "mutual-information": mutual_information_score,
}


def _runs(probabilities: Any) -> Tensor:
    """(runs, predictions, classes) in float64."""
    p = check_probabilities("probabilities", probabilities, (2, 3)).to(torch.float64)
    return p if p.dim() == 3 else p[None]
