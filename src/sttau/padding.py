"""Padded batches: which of their steps belong to a sequence."""

from __future__ import annotations

import torch
from torch import Tensor


def valid_steps(inputs: Tensor, lengths: Tensor) -> Tensor:
    """Mask (batch, time) of the steps of ``inputs``, (batch, time, …), that lie within each sequence's length.

    Example:
        >>> valid_steps(torch.zeros(2, 3), torch.tensor([3, 1]))
        tensor([[ True,  True,  True],
                [ True, False, False]])
    """
    step = torch.arange(inputs.shape[1], device=inputs.device)
    return step < lengths.to(inputs.device)[:, None]


def clear_padding(inputs: Tensor, lengths: Tensor) -> Tensor:
    """Put zeros beyond each sequence's length, so that whatever stood there, NaN included, has no effect."""
    beyond = ~valid_steps(inputs, lengths)
    return inputs.masked_fill(beyond.reshape(*beyond.shape, *(1,) * (inputs.dim() - 2)), 0)
