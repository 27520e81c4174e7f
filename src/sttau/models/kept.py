"""Tensors and settings that another part of the library keeps in a model, such as a fitted detector."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn


class KeptTensors(nn.Module):
    """Named tensors in float64 with plain settings; saved with the model.

    Args:
        name: Name of what is kept.
        shapes: Shape of each tensor by name.
        settings: Plain values by name.

    Example:
        >>> kept = KeptTensors.of("knn", {"features": torch.zeros(5, 3)}, {"neighbors": 2})
        >>> kept.config()
        {'name': 'knn', 'shapes': {'features': [5, 3]}, 'settings': {'neighbors': 2}}
    """

    def __init__(self, name: str, shapes: Mapping[str, Sequence[int]], settings: Mapping[str, Any]) -> None:
        super().__init__()
        self.name, self.settings = name, dict(settings)
        for key, shape in shapes.items():
            self.register_buffer(key, torch.zeros(*shape, dtype=torch.float64))

    @classmethod
    def of(cls, name: str, tensors: Mapping[str, Tensor], settings: Mapping[str, Any]) -> KeptTensors:
        """Keep copies of tensors."""
        made = cls(name, {key: list(value.shape) for key, value in tensors.items()}, settings)
        for key, value in tensors.items():
            made.get_buffer(key).copy_(value)
        return made

    @property
    def tensors(self) -> dict[str, Tensor]:
        """The tensors by name, on the CPU."""
        return {name: value.cpu() for name, value in self.named_buffers()}

    def _apply(self, fn: Any, recurse: bool = True) -> KeptTensors:
        """Move to a device, and keep float64 whatever the dtype of the model."""
        for name, buffer in list(self._buffers.items()):
            assert buffer is not None
            self._buffers[name] = buffer.to(fn(buffer).device)
        return self

    def config(self) -> dict[str, Any]:
        """Return the arguments that construct the same, except the tensors."""
        shapes = {name: list(value.shape) for name, value in self.named_buffers()}
        return {"name": self.name, "shapes": shapes, "settings": self.settings}

    def extra_repr(self) -> str:
        """Show the name and the shapes."""
        return ", ".join([repr(self.name), *(f"{name}={tuple(v.shape)}" for name, v in self.named_buffers())])
