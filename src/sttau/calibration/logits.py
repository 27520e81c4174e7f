"""Logits for scaling, from the probabilities of a prediction."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from sttau.checks import check_probabilities
from sttau.inference import Prediction


def to_logits(prediction: Any) -> Tensor:
    """Return logits for scaling from a result of ``predict``: the logarithms of its probabilities.

    The softmax of log p is p, so they are equivalent to the network's own logits.

    Args:
        prediction: A :class:`~sttau.Prediction`, or probabilities, (predictions, classes) or
            (samples, predictions, classes). A prediction that averages several samples or ensemble members must have
            been made with ``keep_samples=True``: each of them is scaled, then they are averaged.

    Example:
        >>> to_logits([[0.5, 0.5], [1.0, 0.0]]).softmax(-1).round(decimals=6).tolist()
        [[0.5, 0.5], [1.0, 0.0]]
    """
    if isinstance(prediction, Prediction):
        if prediction.samples is None and prediction.num_samples > 1:
            raise ValueError(
                f"prediction is the mean of {prediction.num_samples} samples, which are scaled one by one, but does "
                "not hold them; call predict with keep_samples=True"
            )
        p = check_probabilities(
            "prediction", prediction.mean if prediction.samples is None else prediction.samples, (2, 3)
        )
    else:
        p = check_probabilities("probabilities", prediction, (2, 3))
    return p.clamp_min(torch.finfo(p.dtype).tiny).to(torch.float64).log()
