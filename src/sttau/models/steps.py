"""Reading a sequence step by step: the output after every step, where steps are joined to patches.

After a step in the middle of a patch, the layer reads the part of the patch that is known, with zeros for the rest, as
it does at the end of a sequence. So the output after step t is that of the sequence's first t steps.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import torch
import torch.nn.functional as F
from torch import Tensor

from sttau.engine import Noise, Readout
from sttau.layers import LayerMode, LayerState, RecurrentLayer
from sttau.padding import clear_padding


def partial_patches(channels: Tensor, size: int) -> Tensor:
    """Return every patch as it is known after each of its steps.

    Args:
        channels: (batch, time, channels).
        size: Steps per patch.

    Returns:
        (batch, patches, size, size · channels).

    Example:
        >>> partial_patches(torch.tensor([[[1.0], [2.0], [3.0]]]), 2)[0].tolist()
        [[[1.0, 0.0], [1.0, 2.0]], [[3.0, 0.0], [3.0, 0.0]]]
    """
    filled = F.pad(channels, (0, 0, 0, -channels.shape[1] % size)).unflatten(1, (-1, size))
    known = torch.ones(size, size, dtype=channels.dtype, device=channels.device).tril()
    parts: Tensor = filled[:, :, None] * known[:, :, None]
    return parts.flatten(3)


def features_per_step(
    layer: RecurrentLayer,
    channels: Tensor,
    lengths: Tensor | None,
    size: int,
    *,
    noise: Noise | None,
    mode: LayerMode | None,
    readout: Readout | None,
) -> Tensor:
    """Return the output of the layer after every step of a sequence that it reads in patches: (rows, time, d).

    Args:
        layer: Layer that reads in one direction.
        channels: (batch, time, channels), before they are joined to patches.
        lengths: (batch,) valid steps.
        size: Steps per patch.
        noise: Noise of the draws, (samples · batch) rows.
        mode: Mode of the layer.
        readout: Output of a finite-state layer to read.
    """
    parts = partial_patches(channels, size)
    outputs = [
        _read(layer, parts.repeat(1 if own is None else len(own.sample) // len(parts), 1, 1, 1), own, mode, readout)
        for own in separate_draws(layer, noise, len(parts))
    ]
    read = torch.cat(outputs)[:, : channels.shape[1]]
    return clear_padding(read, None if lengths is None else lengths.repeat(len(read) // len(lengths)))


def separate_draws(layer: RecurrentLayer, noise: Noise | None, batch: int) -> list[Noise | None]:
    """The noises of single calls: one for each sample, where all rows of a call share a draw."""
    if noise is None or not layer.shares_draws:
        return [noise]
    rows = range(0, len(noise.sample), batch)
    return [
        replace(noise, sequence=noise.sequence[row : row + batch], sample=noise.sample[row : row + batch])
        for row in rows
    ]


def _read(
    layer: RecurrentLayer, parts: Tensor, noise: Noise | None, mode: LayerMode | None, readout: Readout | None
) -> Tensor:
    """The output for (rows, patches, size, width): patch by patch, all its parts at once from the same state."""
    rows, patches, size, width = parts.shape
    state: LayerState | None = None
    outputs = []
    for number in range(patches):
        own = None
        if noise is not None:
            sequence, sample = (value.repeat_interleave(size) for value in (noise.sequence, noise.sample))
            own = replace(noise, sequence=sequence, sample=sample, first_step=noise.first_step + number)
        start = None if state is None else _map(lambda value: value.repeat_interleave(size, dim=1), state)
        part = parts[:, number].reshape(rows * size, 1, width)
        output, after = layer.advance(part, start, noise=own, mode=mode, readout=readout)
        outputs.append(output.unflatten(0, (rows, size)).squeeze(2))
        state = _map(lambda value: value[:, size - 1 :: size], after)
    return torch.cat(outputs, dim=1)


def _map(function: Callable[[Tensor], Tensor], state: LayerState) -> LayerState:
    return LayerState(function(state.hidden), None if state.memory is None else function(state.memory))
