"""NumPy arrays for kernels: tensors as arrays, and rows in panels of one Vector.

Around the kernels only NumPy touches values: PyTorch would split even a small copy among its threads, and leave them
spinning on the cores that the kernels are about to use.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from sttau.engine.simd.vectors import Array


def as_array(tensor: Tensor) -> Array:
    """The values of a tensor, shared where it is contiguous."""
    array: Array = tensor.detach().contiguous().numpy()
    return array


def as_integers(tensor: Tensor | None) -> Array:
    """The values of an integer tensor, flat; empty for None."""
    return np.zeros(0, dtype=np.int64) if tensor is None else as_array(tensor).reshape(-1)


def as_tensor(array: Array) -> Tensor:
    """A contiguous tensor of an array."""
    return torch.from_numpy(np.ascontiguousarray(array))


def empty(like: Array, *shape: int) -> Array:
    """Uninitialized memory, allocated by PyTorch, which aligns it to cache lines."""
    return torch.empty(shape, dtype=torch.float32 if like.itemsize == 4 else torch.float64).numpy()


def filled(like: Array, value: float, *shape: int) -> Array:
    """An array of one value, with the dtype of ``like``."""
    array = empty(like, *shape)
    array.fill(value)
    return array


def pad_last(array: Array, size: int) -> Array:
    """The array with its last dimension padded with zeros to ``size``."""
    whole = filled(array, 0, *array.shape[:-1], size)
    whole[..., : array.shape[-1]] = array
    return whole


def to_panels(rows: Array, lanes: int) -> Array:
    """Rows (n, slots, d) in panels (panels, n, slots, lanes), flat."""
    n, slots, d = rows.shape
    panels = empty(rows, -(-d // lanes), n, slots, lanes)
    whole = rows if d % lanes == 0 else pad_last(rows, len(panels) * lanes)
    panels[:] = whole.reshape(n, slots, -1, lanes).transpose(2, 0, 1, 3)
    return panels.reshape(-1)


def from_panels(panels: Array, d: int) -> Array:
    """Panels (panels, n, slots, lanes) as rows (n, slots, d)."""
    return panels.transpose(1, 2, 0, 3).reshape(*panels.shape[1:3], -1)[..., :d]
