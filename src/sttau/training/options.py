"""The options of training, shared by ``fit``, ``fit_many`` and ``compare``."""

from __future__ import annotations

import hashlib
import math
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from typing import Any, Literal, TypedDict, get_args

import torch
from torch import Tensor, nn
from torch.optim.lr_scheduler import LRScheduler

from sttau.checks import as_integer
from sttau.models.criterion import LossFunction, LossName, check_loss
from sttau.training.log import Callback
from sttau.training.sample_weights import ClassWeight, as_class_weight, as_sample_weight
from sttau.training.soft_labels import as_soft_labels

Mode = Literal["min", "max"]
Precision = Literal["float32", "bfloat16", "float16"]
Schedule = Literal["constant", "cosine"]

#: Options that the trained weights depend on; a run is resumed only with the same.
_RESULT_FIELDS = (
    "updates", "batch_size", "learning_rate", "weight_decay", "schedule", "warmup", "ema_decay", "clip_norm", "seed",
    "bucket_batches", "precision", "validate_every", "metric", "mode", "patience",
)  # fmt: skip
_LATER_FIELDS = (
    "scheduler",
    "loss",
    "class_weight",
    "sample_weight",
    "soft_labels",
)  # only where they are given: checkpoints of before lack them
_COUNTS = ("updates", "epochs", "batch_size", "validate_every", "bucket_batches", "patience", "checkpoint_every")
_OPTIONAL_COUNTS = ("updates", "epochs", "patience", "checkpoint_every")
_UPDATES = 1000  # where neither updates nor epochs are given


class TrainKeywords(TypedDict, total=False):
    """The fields of :class:`TrainOptions` as keyword arguments of ``fit``."""

    updates: int | None
    epochs: int | None
    batch_size: int
    learning_rate: float
    weight_decay: float
    optimizer: Callable[..., torch.optim.Optimizer]
    loss: LossName | LossFunction | None
    label_smoothing: float
    class_weight: ClassWeight | None
    sample_weight: Any
    soft_labels: Any
    schedule: Schedule
    warmup: int
    scheduler: Callable[[torch.optim.Optimizer], LRScheduler] | None
    ema_decay: float | None
    clip_norm: float | None
    seed: int
    bucket_batches: int
    precision: Precision
    cuda_graphs: bool
    validate_every: int
    metric: str | None
    mode: Mode
    patience: int | None
    folder: str | os.PathLike[str] | None
    checkpoint_every: int | None
    callbacks: Callback | Iterable[Callback]
    progress: bool | None


@dataclass(frozen=True)
class TrainOptions:
    """How a model is trained.

    Attributes:
        updates: Number of batches to train on, at most; 1,000 unless ``epochs`` is given.
        epochs: Number of passes over the data, at most, instead of ``updates``.
        batch_size: Sequences per batch, over all processes.
        learning_rate: Learning rate, passed to the optimizer as ``lr``.
        weight_decay: Weight decay of all weights, log τ included, which it draws to 0; AdamW's is decoupled.
        optimizer: Class of ``torch.optim``, or ``functools.partial(torch.optim.SGD, momentum=0.9)``.
        loss: Loss per row instead of the model's own: ``cross-entropy`` (a classifier's own), ``focal``, or a function
            that returns (rows,) losses, of logits and labels for a classifier, of a ``Gaussian`` and the targets for a
            regressor, standardized by its ``target_scaling``. With several ``paths``, logits are the logarithm of the
            mean probability and the ``Gaussian`` has mean and variance of the mixture. Validation is unchanged.
        label_smoothing: Share of every label that the cross-entropy spreads evenly over all classes.
        class_weight: Weights of the classes in the mean loss: ``balanced`` for sequences / (classes · sequences of the
            class); a mapping from name or number, with 1 for classes left out; or a sequence.
        sample_weight: (sequences,) nonnegative weights in the mean loss, multiplied by those of the classes. The
            product is divided by its mean over the training data.
        soft_labels: (sequences, classes) probabilities that the cross-entropy of a classifier is computed from instead
            of the labels, such as the predictions of other networks (knowledge distillation).
        schedule: Schedule of the learning rate: ``constant``, or ``cosine`` to 0 over all ``updates``.
        warmup: Updates over which the learning rate rises linearly to its value.
        scheduler: Function from the optimizer to a scheduler of ``torch.optim.lr_scheduler``, such as
            ``functools.partial(StepLR, step_size=100)``, instead of ``schedule`` and ``warmup``. It is stepped after
            every update; ``ReduceLROnPlateau`` after every validation, with the monitored metric.
        ema_decay: Decay of an exponential moving average of the weights, which is validated and kept at the end (0.999
            is a common choice); None for the weights themselves.
        clip_norm: Largest norm of the gradient, for each member of an ensemble; None for no limit.
        seed: Seed of batch order, noise and dropout.
        bucket_batches: Number of batches that are sorted by length together, to reduce padding; 1 for none.
        precision: ``bfloat16`` or ``float16`` for mixed precision; weights keep their dtype.
        cuda_graphs: Whether to capture a whole update per batch shape on a GPU and replay it. It has no effect with
            several processes, ``float16``, a ``scheduler`` or an optimizer without the option ``capturable``.
        validate_every: Updates between two validations.
        metric: Name of the validation metric to monitor, where there are several.
        mode: Whether the metric should be minimized (``min``) or maximized (``max``).
        patience: Validations without improvement after which training stops; None to never stop early.
        folder: Folder for checkpoints and the log, ``log.jsonl``. A run resumes from its own checkpoint there.
        checkpoint_every: Updates between two checkpoints; ``validate_every`` by default.
        callbacks: Functions called with every :class:`Update`, in the first process only; training stops if any returns
            True. On a GPU they are called for several updates at once, since reading a loss synchronizes.
        progress: Whether ``fit`` shows a progress bar on standard error; None for where that is a terminal.
            ``fit_many`` shows none, ``compare`` its own.

    Example:
        >>> TrainOptions(updates=300, learning_rate=0.01).with_changes(seed=3).seed
        3
    """

    updates: int | None = None
    epochs: int | None = None
    batch_size: int = 64
    learning_rate: float = 5e-3
    weight_decay: float = 0.0
    optimizer: Callable[..., torch.optim.Optimizer] = torch.optim.AdamW
    loss: LossName | LossFunction | None = None
    label_smoothing: float = 0.0
    class_weight: ClassWeight | None = None
    sample_weight: Any = field(default=None, compare=False, repr=False)
    soft_labels: Any = field(default=None, compare=False, repr=False)
    schedule: Schedule = "constant"
    warmup: int = 0
    scheduler: Callable[[torch.optim.Optimizer], LRScheduler] | None = None
    ema_decay: float | None = None
    clip_norm: float | None = 1.0
    seed: int = 0
    bucket_batches: int = 1
    precision: Precision = "float32"
    cuda_graphs: bool = False
    validate_every: int = 100
    metric: str | None = None
    mode: Mode = "min"
    patience: int | None = None
    folder: str | os.PathLike[str] | None = None
    checkpoint_every: int | None = None
    callbacks: Callback | Iterable[Callback] = field(default=())
    progress: bool | None = None

    def __post_init__(self) -> None:
        for name in _COUNTS:
            count = getattr(self, name)
            if count is not None or name not in _OPTIONAL_COUNTS:
                object.__setattr__(self, name, as_integer(name, count, 1))
        if self.updates is not None and self.epochs is not None:
            raise ValueError(f"give updates or epochs, not both; got updates={self.updates} and epochs={self.epochs}")
        if self.updates is None and self.epochs is None:
            object.__setattr__(self, "updates", _UPDATES)
        object.__setattr__(self, "warmup", as_integer("warmup", self.warmup, 0))
        object.__setattr__(self, "seed", as_integer("seed", self.seed))
        if not (self.learning_rate > 0 and math.isfinite(self.learning_rate)):
            raise ValueError(f"learning_rate must be positive and finite, got {self.learning_rate}")
        if self.clip_norm is not None and not self.clip_norm > 0:
            raise ValueError(f"clip_norm must be positive, or None for no limit, got {self.clip_norm}")
        if self.ema_decay is not None and not 0 <= self.ema_decay < 1:
            raise ValueError(f"ema_decay must be in [0, 1), or None for no average, got {self.ema_decay}")
        for name, kind in (("precision", Precision), ("mode", Mode), ("schedule", Schedule)):
            if getattr(self, name) not in get_args(kind):
                choices = ", ".join(map(repr, get_args(kind)))
                raise ValueError(f"{name} must be one of {choices}, got {getattr(self, name)!r}")
        self._check_scheduler()
        check_loss(self.loss, self.label_smoothing)
        object.__setattr__(self, "class_weight", as_class_weight(self.class_weight))
        object.__setattr__(self, "sample_weight", as_sample_weight(self.sample_weight))
        object.__setattr__(self, "soft_labels", as_soft_labels(self.soft_labels))
        if self.soft_labels is not None and self.loss == "focal":
            raise ValueError("soft_labels need loss='cross-entropy', or a function; the focal loss takes labels")
        if self.progress not in (None, True, False):
            raise ValueError(f"progress must be True, False or None, got {self.progress!r}")
        callbacks = (self.callbacks,) if callable(self.callbacks) else tuple(self.callbacks)
        object.__setattr__(self, "callbacks", callbacks)
        object.__setattr__(self, "folder", None if self.folder is None else Path(self.folder))

    def _check_scheduler(self) -> None:
        if self.scheduler is None:
            return
        if not callable(self.scheduler):
            raise ValueError(
                "scheduler must be a function from the optimizer to a scheduler, such as "
                f"functools.partial(torch.optim.lr_scheduler.StepLR, step_size=100), got {self.scheduler!r}"
            )
        if self.schedule != "constant" or self.warmup:
            raise ValueError("scheduler cannot be combined with schedule and warmup: it sets the learning rate alone")

    @classmethod
    def names(cls) -> tuple[str, ...]:
        """Names of all options."""
        return tuple(option.name for option in fields(cls))

    def with_changes(self, **changes: Any) -> TrainOptions:
        """Return options with some values replaced; an unknown name raises TypeError.

        ``epochs`` replaces ``updates``, and the other way round.
        """
        unknown = sorted(set(changes) - set(self.names()))
        if unknown:
            close = get_close_matches(unknown[0], ("validation", *self.names()), n=1)
            meant = f"did you mean {close[0]}? All options: " if close else "choose from "
            raise TypeError(f"{', '.join(unknown)}: there is no such training option; {meant}{', '.join(self.names())}")
        for name, other in (("epochs", "updates"), ("updates", "epochs")):
            if changes.get(name) is not None:
                changes.setdefault(other, None)
        return replace(self, **changes)

    @property
    def total_updates(self) -> int:
        """Number of updates; only known for certain data where ``epochs`` is given, see :meth:`for_data`."""
        if self.updates is None:
            raise ValueError("the number of updates of an epoch depends on the data; see TrainOptions.for_data")
        return self.updates

    def for_data(self, sequences: int) -> TrainOptions:
        """Return the options for so many training sequences, with ``epochs`` as a number of updates.

        Example:
            >>> TrainOptions(epochs=3, batch_size=4).for_data(10).updates
            9
        """
        if self.epochs is None:
            return self
        return self.with_changes(updates=self.epochs * -(-sequences // self.batch_size))

    def check_device(self, device: torch.device) -> None:
        """Raise where an option does not work on a device."""
        if self.precision == "float16" and device.type == "cpu":
            raise ValueError("precision='float16' needs a GPU; on a CPU use 'bfloat16'")

    def check_validation(self, validates: bool) -> None:
        """Raise where an option needs validation data and there is none."""
        if not validates and (self.patience is not None or self.metric is not None):
            raise ValueError("patience and metric need validation data: pass validation=")

    def learning_rate_at(self, number: int) -> float:
        """Return the learning rate of an update, counted from 1."""
        decayed = (
            0.5 * (1 + math.cos(math.pi * (number - 1) / self.total_updates)) if self.schedule == "cosine" else 1.0
        )
        return self.learning_rate * decayed * min(1.0, number / (self.warmup + 1))

    def describe(self, validates: bool) -> dict[str, Any]:
        """Return the options that the trained weights depend on, as plain values."""
        later = {name: plain_value(getattr(self, name)) for name in _LATER_FIELDS if getattr(self, name) is not None}
        if later.get("loss") == "cross-entropy":  # a classifier's own
            del later["loss"]
        smoothing = {"label_smoothing": self.label_smoothing} if self.label_smoothing else {}
        return {name: getattr(self, name) for name in _RESULT_FIELDS} | later | smoothing | {"validates": validates}


def separate_options(settings: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return settings of a network, and options of training; ``mode`` is of either, by its value.

    Example:
        >>> separate_options({"num_states": 4, "updates": 300, "mode": "exact"})
        ({'num_states': 4, 'mode': 'exact'}, {'updates': 300})
        >>> separate_options({"metric": "accuracy", "mode": "max"})
        ({}, {'metric': 'accuracy', 'mode': 'max'})
    """
    names = set(TrainOptions.names())
    training = {
        name: value for name, value in settings.items() if name in names and (name != "mode" or value in get_args(Mode))
    }
    return {name: value for name, value in settings.items() if name not in training}, training


def plain_value(value: Any) -> Any:
    """Return the value of an option as text or numbers: functions by their names, tensors by their hashes.

    Example:
        >>> from functools import partial
        >>> plain_value(partial(torch.optim.SGD, momentum=0.9)), plain_value(0.5)
        ('SGD(momentum=0.9)', 0.5)
    """
    if isinstance(value, Tensor):
        content = value.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()
        return f"tensor {tuple(value.shape)} with SHA-256 {hashlib.sha256(content).hexdigest()[:16]}"
    if isinstance(value, partial):
        arguments = [f"{plain_value(each)}" for each in value.args]
        arguments += [f"{name}={plain_value(each)}" for name, each in value.keywords.items()]
        return f"{plain_value(value.func)}({', '.join(arguments)})"
    if isinstance(value, (dict, tuple)):
        return str(value)
    if not callable(value):
        return value
    if isinstance(value, nn.Module):
        weights = [f"{name}: {plain_value(weight)}" for name, weight in value.state_dict().items()]
        return f"{value!r} with {', '.join(weights)}" if weights else repr(value)
    return getattr(value, "__name__", type(value).__name__)
