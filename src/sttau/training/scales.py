"""Features in unusual units, which a network that does not scale them hardly learns from."""

from __future__ import annotations

import warnings

import torch
from torch import Tensor

from sttau.models import Predictor
from sttau.padding import valid_steps

_LARGEST = 100.0  # ratio between the scale of a feature and 1 that is unusual


def warn_odd_scales(model: Predictor, inputs: Tensor, lengths: Tensor | None = None) -> None:
    """Warn if a model reads features as they are, and their scales or offsets are far from 1.

    Args:
        model: Model that is trained.
        inputs: (sequences, time, features).
        lengths: (sequences,) valid steps.
    """
    if model.reads_tokens or model.members[0].preprocessing is not None:
        return
    values = (inputs.flatten(0, 1) if lengths is None else inputs[valid_steps(inputs, lengths)]).to(torch.float64)
    mean, spread = values.mean(0), values.std(0, correction=0)
    size = torch.maximum(mean.abs(), spread)
    odd = (size > _LARGEST) | ((mean.abs() > _LARGEST * spread) & (spread > 0))
    if float(size.max()) < 1 / _LARGEST:  # one small feature may be a pixel that is hardly ever set
        odd |= size > 0
    if not bool(odd.any()):
        return
    place = int(odd.nonzero()[0])
    name = model.feature_names[place] if model.feature_names else f"{place}"
    warnings.warn(
        f"feature {name} has mean {float(mean[place]):.4g} and standard deviation {float(spread[place]):.4g}; a "
        "network learns badly from features of such scales. Scale them: preprocessing=Preprocessing.fitted(train), or "
        "sttau.create_model(train), which does it.",
        stacklevel=4,
    )
