"""Backward passes that can themselves not be differentiated: those of the kernels."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar, cast

import torch

Backward = TypeVar("Backward", bound=Callable[..., Any])


def first_order(backward: Backward) -> Backward:
    """Decorate the backward pass of an engine, so that it raises where its result would have to be differentiated.

    ``torch.autograd.function.once_differentiable`` raises only where the gradients of all inputs are asked for. A
    Hessian, which asks for those of some of them, would be zero without a word.

    Example:
        >>> import sttau
        >>> x = torch.randn(4, 1, 2, requires_grad=True)
        >>> loss = sttau.STTauGRU(2, 4, num_states=3)(x)[0].square().sum()
        >>> torch.autograd.grad(loss, x, create_graph=True)
        Traceback (most recent call last):
        ...
        RuntimeError: second derivatives (create_graph=True, Hessians) are not available on the fast engines; ...
    """

    @wraps(backward)
    def checked(ctx: Any, *grads: Any) -> Any:
        check_first_order()
        return backward(ctx, *grads)

    return cast(Backward, checked)


def check_first_order() -> None:
    """Raise inside a backward pass whose own graph is recorded."""
    if torch.is_grad_enabled():
        raise RuntimeError(
            "second derivatives (create_graph=True, Hessians) are not available on the fast engines; "
            "run the forward pass inside \"with sttau.engine.using('reference'):\""
        )
