"""Tensors that nobody writes to, made once: on a GPU, asking for them costs more than a step."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, wraps
from typing import Any, TypeVar, cast

import torch

Maker = TypeVar("Maker", bound=Callable[..., Any])


def kept(make: Maker) -> Maker:
    """Remember what a function of sizes and, last, a device makes.

    Not while a compiler traces, nor while a CUDA graph is captured, whose memory is its own. What is kept can be used
    in training, even if it was first asked for under ``torch.inference_mode``.

    Example:
        >>> ones = kept(lambda size, device: torch.ones(size, device=device))
        >>> ones(2, torch.device("cpu")) is ones(2, torch.device("cpu"))
        True
    """

    @lru_cache(maxsize=64)
    def once(*sizes: Any) -> Any:
        with torch.inference_mode(False):
            return make(*sizes)

    @wraps(make)
    def get(*sizes: Any) -> Any:
        if torch.compiler.is_compiling():
            return make(*sizes)
        captured = sizes[-1].type == "cuda" and torch.cuda.is_current_stream_capturing()
        return make(*sizes) if captured else once(*sizes)

    return cast(Maker, get)
