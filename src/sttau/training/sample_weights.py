"""Weights of training sequences, from ``class_weight`` and ``sample_weight``."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import torch
from torch import Tensor

from sttau.checks import as_numbers

#: ``balanced``, weights by name or number of the class, or the weight of every class.
ClassWeight = Literal["balanced"] | Mapping[Any, float] | Sequence[float]


def as_class_weight(value: Any) -> ClassWeight | None:
    """Return class weights as plain values after checking them."""
    if value is None:
        return None
    if isinstance(value, str) and value == "balanced":
        return "balanced"
    if isinstance(value, Mapping):
        weights: ClassWeight = {key: _number(weight) for key, weight in value.items()}
        return weights
    if not isinstance(value, str) and hasattr(value, "__iter__"):
        return tuple(_number(weight) for weight in value)
    raise ValueError(f"class_weight must be 'balanced', a mapping from class to weight, or a sequence, got {value!r}")


def _number(value: Any) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = math.nan
    if not 0 <= number < math.inf:
        raise ValueError(f"class_weight must hold nonnegative finite weights, got {value!r}")
    return number


def as_sample_weight(value: Any) -> Tensor | None:
    """Return the weights of sequences as a float64 tensor after checking them."""
    if value is None:
        return None
    weights = as_numbers("sample_weight", value).detach().to(torch.float64)
    if weights.dim() != 1:
        raise ValueError(f"sample_weight must be (sequences,), got shape {tuple(weights.shape)}")
    if not bool(((weights >= 0) & weights.isfinite()).all()):
        raise ValueError("sample_weight must be nonnegative and finite")
    return weights


def sequence_weights(
    class_weight: ClassWeight | None,
    sample_weight: Tensor | None,
    targets: Tensor,
    num_classes: int | None,
    names: Sequence[str] = (),
) -> Tensor | None:
    """Return the weight of every training sequence in the mean loss: mean 1, float64; None where all are 1.

    Args:
        class_weight: Weights of classes; ``balanced`` for those of :func:`balanced_weights`.
        sample_weight: (sequences,) weights, by which those of the classes are multiplied.
        targets: (sequences,) labels, or values.
        num_classes: Number of classes; None for regression.
        names: Names of the classes, where they have names.

    Example:
        >>> sequence_weights("balanced", None, torch.tensor([0, 0, 0, 1]), num_classes=2).tolist()
        [0.6666666666666666, 0.6666666666666666, 0.6666666666666666, 2.0]
    """
    if class_weight is None and sample_weight is None:
        return None
    targets = targets.cpu()
    weights = torch.ones(len(targets), dtype=torch.float64)
    if sample_weight is not None:
        if len(sample_weight) != len(targets):
            raise ValueError(
                f"sample_weight must hold one weight per training sequence, {len(targets)}, got {len(sample_weight)}"
            )
        weights = weights * sample_weight.cpu()
    if class_weight is not None:
        if num_classes is None:
            raise ValueError("class_weight is for classifiers; weigh the sequences of a regressor by sample_weight")
        weights = weights * _of_classes(class_weight, targets, weights, num_classes, names)[targets]
    if not float(weights.sum()) > 0:
        raise ValueError("class_weight and sample_weight are 0 for all training sequences; there is nothing to learn")
    return weights / weights.mean()


def balanced_weights(labels: Tensor, weights: Tensor, num_classes: int) -> Tensor:
    """Return the weights of classes with which all classes have the same sum of weights: (classes,), float64.

    A class has the weight W / (classes · its own W), where W is the sum of the weights of sequences, so that a sequence
    of weight 2 counts as two. Without weights this is the definition of scikit-learn.

    Args:
        labels: (sequences,) classes.
        weights: (sequences,) weights of the sequences.
        num_classes: Number of classes; one without sequences has weight 1.

    Example:
        >>> balanced_weights(torch.tensor([0, 0, 1]), torch.tensor([1.0, 1.0, 2.0]), num_classes=2).tolist()
        [1.0, 1.0]
    """
    totals = torch.bincount(labels, weights.double(), minlength=num_classes)
    return torch.where(totals > 0, totals.sum() / (num_classes * totals), 1.0)


def _of_classes(
    class_weight: ClassWeight, targets: Tensor, weights: Tensor, num_classes: int, names: Sequence[str]
) -> Tensor:
    """(classes,) weights."""
    if isinstance(class_weight, str):
        return balanced_weights(targets, weights, num_classes)
    if not isinstance(class_weight, Mapping):
        if len(class_weight) != num_classes:
            raise ValueError(f"class_weight must hold one weight per class, {num_classes}, got {len(class_weight)}")
        return torch.tensor(class_weight, dtype=torch.float64)
    numbered = {str(number): number for number in range(num_classes)}
    named = {name: number for number, name in enumerate(names)}
    known = named if all(str(key) in named for key in class_weight) else numbered  # names first: they may be numbers
    unknown = [key for key in class_weight if str(key) not in named | numbered]
    unknown = unknown or [key for key in class_weight if str(key) not in known]  # a name among numbers
    if unknown:
        choices = ", ".join(map(repr, named)) + " or " if named else ""
        raise ValueError(f"class_weight names {unknown[0]!r}; the classes are {choices}0 … {num_classes - 1}")
    values = torch.ones(num_classes, dtype=torch.float64)
    for key, value in class_weight.items():
        values[known[str(key)]] = value
    return values
