"""What a factored engine is given and what it returns."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor


class Problem(NamedTuple):
    """One layer in one direction, time first; everything is contiguous and on one device."""

    x: Tensor
    index: Tensor | None  # type: ignore[assignment]
    input: Tensor
    input_bias: Tensor | None
    recurrent: Tensor
    states: Tensor
    temperature: Tensor
    peephole: Tensor | None
    start: Tensor
    first: Tensor
    lengths: Tensor | None
    seed: Tensor | None
    sequence: Tensor | None
    sample: Tensor | None
    rows: int
    first_step: int
    layer: int
    cell: str
    mode: str
    reverse: bool
    read: str


class Results(NamedTuple):
    """What the recurrence returns, and what backward needs again."""

    alpha: Tensor
    output: Tensor
    last: Tensor
    soft: Tensor
    memory: Tensor


class Gradients(NamedTuple):
    """Gradients, in the shapes of the problem's fields."""

    x: Tensor | None
    input: Tensor
    input_bias: Tensor | None
    recurrent: Tensor
    states: Tensor
    temperature: Tensor
    peephole: Tensor | None
    start: Tensor
    first: Tensor
