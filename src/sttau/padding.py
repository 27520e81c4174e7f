"""Padded batches: which steps belong to a sequence, the last valid step, and what is beyond it."""

from __future__ import annotations

import torch
from torch import Tensor


def valid_steps(inputs: Tensor, lengths: Tensor) -> Tensor:
    """Return the mask (batch, time) of the steps of ``inputs``, (batch, time, …), within each sequence's length.

    Example:
        >>> valid_steps(torch.zeros(2, 3), torch.tensor([3, 1]))
        tensor([[ True,  True,  True],
                [ True, False, False]])
    """
    step = torch.arange(inputs.shape[1], device=inputs.device)
    return step < lengths.to(inputs.device)[:, None]


def clear_padding(inputs: Tensor, lengths: Tensor | None) -> Tensor:
    """Set everything beyond each sequence's length to zero, so that the padding, NaN included, has no effect."""
    if lengths is None:
        return inputs
    beyond = ~valid_steps(inputs, lengths)
    return inputs.masked_fill(beyond.reshape(*beyond.shape, *(1,) * (inputs.dim() - 2)), 0)


def last_valid_step(values: Tensor, lengths: Tensor | None, directions: int = 1) -> Tensor:
    """Select the step that each direction reads last.

    Args:
        values: (rows, time, directions · size). The rows are several samples of the same sequences where there are
            more rows than lengths.
        lengths: (batch,) valid steps; None where all steps are valid.
        directions: 2 for the concatenated output of a bidirectional layer, whose second half ends at step 0.

    Returns:
        (rows, directions · size).

    Example:
        >>> last_valid_step(torch.arange(8.0).view(2, 4, 1), torch.tensor([3, 1])).flatten().tolist()
        [2.0, 4.0]
    """
    size = values.shape[-1] // directions
    if lengths is None:
        forward = values[:, -1, :size]
    else:
        last = lengths.to(values.device).repeat(len(values) // len(lengths)) - 1
        forward = values[torch.arange(len(values), device=values.device), last, :size]
    return forward if directions == 1 else torch.cat([forward, values[:, 0, size:]], dim=-1)


def repeat_last_step(values: Tensor, lengths: Tensor | None, dim: int = 1) -> Tensor:
    """Replace every step beyond a sequence's length by its last valid one.

    Args:
        values: (batch, …), with the steps in dimension ``dim``.
        lengths: (batch,) valid steps; None where all steps are valid.
        dim: Dimension of the steps.

    Example:
        >>> repeat_last_step(torch.tensor([[1, 2, 3], [4, 5, 6]]), torch.tensor([3, 1])).tolist()
        [[1, 2, 3], [4, 4, 4]]
    """
    if lengths is None:
        return values
    step = torch.arange(values.shape[dim], device=values.device).expand(len(lengths), -1)
    index = torch.minimum(step, lengths.to(values.device)[:, None] - 1)
    index = index.reshape(len(lengths), *(1,) * (dim - 1), -1, *(1,) * (values.dim() - dim - 1))
    return values.gather(dim, index.expand_as(values))


def reverse_steps(x: Tensor, lengths: Tensor | None) -> Tensor:
    """Reverse the valid steps of each row of (time, rows, …); the same operation reverses them back.

    Example:
        >>> reverse_steps(torch.tensor([[1, 1], [2, 2], [3, 0]]), torch.tensor([3, 2])).tolist()
        [[3, 2], [2, 1], [1, 0]]
    """
    if lengths is None:
        return x.flip(0)
    step = torch.arange(len(x), device=x.device)[:, None]
    source = torch.where(step < lengths, lengths - 1 - step, step)
    return x[source, torch.arange(x.shape[1], device=x.device)]
