"""Coverage and size of conformal sets and intervals."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from sttau.checks import as_numbers
from sttau.metrics.inputs import Inputs
from sttau.metrics.record import Metric, PerExample

#: Level of the sets in tables.
LEVEL = 0.9


def check_sets(covered: Any, size: Any) -> tuple[Tensor, Tensor]:
    """Return whether each set holds its target, and its size, (predictions,) in float64."""
    held, extent = (as_numbers(name, value).to(torch.float64) for name, value in (("covered", covered), ("size", size)))
    if held.dim() != 1 or extent.shape != held.shape:
        raise ValueError(
            f"covered and size must hold one value per prediction, got {tuple(held.shape)} and {tuple(extent.shape)}"
        )
    return held, extent


def set_coverage(covered: Any, size: Any) -> float:
    """Share of sets that hold their target.

    Args:
        covered: (predictions,) whether a set or interval holds its target.
        size: (predictions,) number of classes of a set, or width of an interval.

    Example:
        >>> set_coverage([1.0, 1.0, 0.0, 1.0], [1.0, 2.0, 1.0, 1.0])
        0.75
    """
    return float(check_sets(covered, size)[0].mean())


def set_size(covered: Any, size: Any) -> float:
    """Mean number of classes of a set, or mean width of an interval; infinite where one is.

    Args:
        covered: (predictions,) whether a set or interval holds its target.
        size: (predictions,) number of classes of a set, or width of an interval.

    Example:
        >>> set_size([1.0, 1.0, 0.0, 1.0], [1.0, 2.0, 1.0, 1.0])
        1.25
    """
    return float(check_sets(covered, size)[1].mean())


SETS = Inputs(("covered", "size"), check_sets, "[1.0, 0.0], [2.0, 1.0]")

COVERAGE = Metric(
    name="set_coverage",
    function=set_coverage,
    inputs=SETS,
    title="90 % sets: coverage",
    digits=1,
    percent=True,
    per_example=PerExample("sets", lambda covered, size: covered[:, None]),
)

SIZE = Metric(
    name="set_size",
    function=set_size,
    inputs=SETS,
    title="90 % sets: size",
    direction="min",
    digits=2,
    per_example=PerExample("sets", lambda covered, size: size[:, None]),
)

METRICS = (COVERAGE, SIZE)
