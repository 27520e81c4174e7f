"""Starting Triton's kernels: its own way takes some 50 µs to find the compiled one, longer than many kernels run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from torch import Tensor

_compiled: dict[tuple[Any, ...], Any] = {}


def launch(
    kernel: Any, programs: int, tensors: Sequence[Tensor | None], numbers: Sequence[int], options: Mapping[str, Any]
) -> None:
    """Start a kernel, and remember the compiled one by all that it depends on.

    Args:
        kernel: made by ``triton.jit``; it takes tensors, then numbers, for which nothing is compiled anew
            (``do_not_specialize``), then compile-time values.
        programs: how many.
        tensors: the first is not None.
        numbers: of any size.
        options: the compile-time values by their names, and Triton's own (``num_warps`` …).
    """
    key = (
        kernel,
        tensors[0].device,  # type: ignore[union-attr]
        max(numbers) < 2**31,
        tuple([None if tensor is None else (tensor.dtype, tensor.data_ptr() % 16 == 0) for tensor in tensors]),
        tuple(options.values()),
    )
    known = _compiled.get(key)
    if known is None:
        result = kernel[programs,](*tensors, *numbers, **options)
        if result is not None:  # the interpreter has nothing to remember
            _compiled[key] = result
    else:
        values = [options[name] for name in kernel.arg_names[len(tensors) + len(numbers) :]]
        known[programs, 1, 1](*tensors, *numbers, *values)
