"""Constant tensors, created once: on a GPU, creating them takes longer than a step."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, wraps
from typing import Any, TypeVar, cast

import torch

Maker = TypeVar("Maker", bound=Callable[..., Any])


def cached_constant(make: Maker) -> Maker:
    """Cache the tensors that a function of sizes and, as the last argument, a device creates. Do not write to them.

    The cache is not used while a compiler traces, nor while a CUDA graph, which has its own memory, is captured, nor
    inside a mode that may replace tensors by others, as ``FakeTensorMode`` does. Cached tensors can be used in training
    even if they were created under ``torch.inference_mode``.

    Example:
        >>> ones = cached_constant(lambda size, device: torch.ones(size, device=device))
        >>> ones(2, torch.device("cpu")) is ones(2, torch.device("cpu"))
        True
    """

    @lru_cache(maxsize=64)
    def once(*sizes: Any) -> Any:
        with torch.inference_mode(False):
            return make(*sizes)

    @wraps(make)
    def get(*sizes: Any) -> Any:
        if torch.compiler.is_compiling() or torch._C._len_torch_dispatch_stack():
            return make(*sizes)
        captured = sizes[-1].type == "cuda" and torch.cuda.is_current_stream_capturing()
        return make(*sizes) if captured else once(*sizes)

    return cast(Maker, get)
