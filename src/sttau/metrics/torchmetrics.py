"""The metrics as torchmetrics classes, which accumulate batches and merge over processes.

Most of these metrics are no means over batches, so a class keeps its inputs and evaluates the function of
:mod:`sttau.metrics` on all of them. ``compute`` returns a tensor, or a dictionary of tensors if the function returns
several values. Options of the function, such as ``bins``, are arguments of the class.

There is one class per definition in ``sttau.metrics.METRICS`` with a ``class_name``: ``CalibrationError``,
``BrierScore``, ``Detection`` and others. This module needs an extra: ``pip install 'sttau[torchmetrics]'``.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from torch import Tensor

from sttau.metrics.record import Metric
from sttau.metrics.registry import METRICS

try:
    import torchmetrics
    from torchmetrics.utilities import dim_zero_cat
except ImportError as error:
    raise ImportError("sttau.metrics.torchmetrics needs torchmetrics: pip install 'sttau[torchmetrics]'") from error


class AccumulatedMetric(torchmetrics.Metric):
    """Base class: accumulates the inputs of a metric and evaluates its function on all of them.

    Args:
        *args: Options of the metric's function.
        **kwargs: Options of the metric's function, and arguments of :class:`torchmetrics.Metric`.
    """

    definition: ClassVar[Metric]
    is_differentiable = False
    full_state_update = False

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        options = _options(self.definition)
        own = inspect.Signature(options).bind(
            *args, **{o.name: kwargs.pop(o.name) for o in options if o.name in kwargs}
        )
        super().__init__(**kwargs)
        self._function = partial(self.definition.function, **own.arguments)
        for name in self.definition.inputs.states:
            self.add_state(name, default=[], dist_reduce_fx="cat")

    def update(self, *args: Any, **kwargs: Any) -> None:
        """Add a batch."""
        inputs = self.definition.inputs
        for name, value in zip(inputs.states, inputs.check(*args, **kwargs), strict=True):
            getattr(self, name).append(value.detach())

    def compute(self) -> Tensor | dict[str, Tensor]:
        """Return the metric of all batches since the last reset."""
        inputs = self.definition.inputs
        states = (dim_zero_cat(getattr(self, name)) for name in inputs.states)
        result = self._function(*inputs.arguments(*states))
        if is_dataclass(result):
            return {field.name: torch.as_tensor(getattr(result, field.name)) for field in fields(result)}
        return torch.tensor(result, dtype=torch.float64, device=self.device)


def _options(metric: Metric) -> list[inspect.Parameter]:
    """Return the parameters of the function that are not inputs: those with a default."""
    parameters = inspect.signature(metric.function).parameters.values()
    return [parameter for parameter in parameters if parameter.default is not inspect.Parameter.empty]


def _with_signature(function: Callable[..., Any], parameters: list[inspect.Parameter], doc: str | None) -> Any:
    def wrapped(self: AccumulatedMetric, *args: Any, **kwargs: Any) -> Any:
        return function(self, *args, **kwargs)

    this = inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    wrapped.__signature__ = inspect.Signature([this, *parameters])  # type: ignore[attr-defined]
    wrapped.__name__, wrapped.__doc__ = function.__name__, doc
    return wrapped


def _derive(metric: Metric) -> type[AccumulatedMetric]:
    """Make the class of a metric."""
    name, function, inputs = metric.class_name or "", metric.function, metric.inputs
    summary = (function.__doc__ or "").splitlines()[0]
    rest = inspect.Parameter("kwargs", inspect.Parameter.VAR_KEYWORD)
    checked = list(inspect.signature(inputs.check).parameters.values())
    namespace = {
        "__module__": __name__,
        "__doc__": (
            f"{summary}\n\n    See :func:`sttau.metrics.{function.__name__}` for the options.\n\n    Example:\n"
            f"        >>> metric = {name}()\n        >>> metric.update({inputs.example})\n"
            f"        >>> value = metric.compute()\n    "
        ),
        "__init__": _with_signature(AccumulatedMetric.__init__, [*_options(metric), rest], None),
        "update": _with_signature(AccumulatedMetric.update, checked, inputs.check.__doc__),
        "definition": metric,
        "higher_is_better": None if metric.direction is None else metric.direction == "max",
    }
    return type(name, (AccumulatedMetric,), namespace)


_CLASSES = {metric.class_name: _derive(metric) for metric in METRICS.values() if metric.class_name is not None}
globals().update(_CLASSES)

__all__ = ["AccumulatedMetric", *_CLASSES]

if TYPE_CHECKING:

    def __getattr__(name: str) -> type[AccumulatedMetric]: ...
