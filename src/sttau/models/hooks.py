"""Hooks and replaced functions of modules, which a shortcut past a module would leave out."""

from __future__ import annotations

from torch import nn


def is_changed(module: nn.Module) -> bool:
    """Return whether a module has hooks, or a function of its own instead of a method of its class.

    Example:
        >>> module = nn.Embedding(3, 2)
        >>> before = is_changed(module)
        >>> handle = module.register_forward_hook(lambda module, inputs, output: output * 2)
        >>> before, is_changed(module)
        (False, True)
    """
    hooks = (module._forward_hooks, module._forward_pre_hooks, module._backward_hooks, module._backward_pre_hooks)
    return any(hooks) or any(callable(value) and hasattr(type(module), name) for name, value in vars(module).items())
