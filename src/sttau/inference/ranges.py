"""The range of each feature in training, kept with a model: a network does not extrapolate beyond it."""

from __future__ import annotations

import logging
import math
from typing import Any

import torch
from torch import Tensor

from sttau.models import Predictor
from sttau.padding import valid_steps

_NOTE = "feature_ranges"
_log = logging.getLogger(__name__)


def record_ranges(model: Predictor, inputs: Tensor, lengths: Tensor | None = None) -> None:
    """Widen the ranges that a regressor keeps to those of its training data; missing values do not count.

    Args:
        model: Model that is trained; a classifier, or one that reads tokens, keeps none.
        inputs: (sequences, time, features).
        lengths: (sequences,) valid steps.

    Example:
        >>> from sttau import SequenceRegressor, STTauGRU
        >>> model = SequenceRegressor(STTauGRU(1, 8, num_states=3))
        >>> record_ranges(model, torch.tensor([[[1.0], [3.0]]]))
        >>> feature_ranges(model)
        ((1.0, 3.0),)
    """
    if model.task != "regression" or model.reads_tokens:
        return
    counts = inputs.isfinite()
    if lengths is not None:
        counts = counts & valid_steps(inputs, lengths)[..., None]
    lows = torch.where(counts, inputs, math.inf).amin((0, 1)).tolist()
    highs = torch.where(counts, inputs, -math.inf).amax((0, 1)).tolist()
    found = [(low, high) if low <= high else (0.0, 0.0) for low, high in zip(lows, highs, strict=True)]
    before = feature_ranges(model) or found
    model.set_note(_NOTE, [[min(a, low), max(b, high)] for (a, b), (low, high) in zip(before, found, strict=True)])


def feature_ranges(model: Predictor) -> tuple[tuple[float, float], ...] | None:
    """Return smallest and largest value of each feature in training; None where they are not known."""
    kept: Any = model.notes.get(_NOTE)
    try:
        ranges = tuple((float(low), float(high)) for low, high in kept)
    except (TypeError, ValueError):
        return None
    return ranges if len(ranges) == model.num_features else None


def warn_outside_ranges(model: Predictor, history: Tensor) -> None:
    """Log a warning if the last values of series are outside the ranges of training.

    Args:
        model: Model that reads them.
        history: (batch, time, features).
    """
    ranges = feature_ranges(model)
    if ranges is None:
        return
    low, high = torch.tensor(ranges, dtype=torch.float64, device=history.device).T
    last = history[:, -1].double()
    slack = torch.finfo(history.dtype).eps * torch.maximum(low.abs(), high.abs())  # values were rounded to this dtype
    outside = (last < low - slack) | (last > high + slack)
    if not bool(outside.any()):
        return
    row, feature = (int(place) for place in outside.nonzero()[0])
    name = model.feature_names[feature] if model.feature_names else f"feature {feature}"
    _log.warning(
        "the last values of %d of %d series are outside the range of training: %s of series %d is %.6g, training had "
        "%.6g to %.6g. A network cannot extrapolate levels, and its intervals are too narrow there: model differences "
        "or ratios of a series with a trend, or train on data that cover its level",
        int(outside.any(1).sum()),
        len(last),
        name,
        row,
        float(last[row, feature]),
        *ranges[feature],
    )
