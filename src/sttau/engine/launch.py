"""Launching Triton kernels: its own launcher takes some 50 µs to look up the compiled kernel, longer than many run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from torch import Tensor

_compiled: dict[tuple[Any, ...], Any] = {}


def launch(
    kernel: Any, programs: int, tensors: Sequence[Tensor | None], integers: Sequence[int], options: Mapping[str, Any]
) -> None:
    """Launch a kernel, and cache the compiled one under everything that it depends on.

    Args:
        kernel: Function decorated with ``triton.jit``. Its arguments are tensors, then integers that it is not
            specialized on (``do_not_specialize``), then compile-time values.
        programs: Number of programs.
        tensors: Tensor arguments; the first is not None.
        integers: Integer arguments.
        options: Compile-time values by name, and Triton's own options (``num_warps`` …).
    """
    key = (
        kernel,
        tensors[0].device,  # type: ignore[union-attr]
        max(integers) < 2**31,
        tuple([None if tensor is None else (tensor.dtype, tensor.data_ptr() % 16 == 0) for tensor in tensors]),
        tuple(options.values()),
    )
    known = _compiled.get(key)
    if known is None:
        result = kernel[programs,](*tensors, *integers, **options)
        if result is not None:  # the interpreter returns nothing to cache
            _compiled[key] = result
    else:
        values = [options[name] for name in kernel.arg_names[len(tensors) + len(integers) :]]
        known[programs, 1, 1](*tensors, *integers, *values)
