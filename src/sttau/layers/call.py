"""Modes of a layer, and the arguments and results of one pass."""

from __future__ import annotations

from typing import Literal, NamedTuple

from torch import Tensor

from sttau.engine import Noise, Readout, Steps

#: How a layer is run. ``soft``, ``hard``, ``exact`` and ``deterministic`` are modes of finite-state layers; ``sampled``
#: draws weights or masks.
LayerMode = Literal["soft", "hard", "exact", "deterministic", "sampled"]
#: Modes in which two calls with different noise differ.
SAMPLED_MODES: tuple[LayerMode, ...] = ("soft", "hard", "sampled")


class Call(NamedTuple):
    """The arguments of one pass over (batch, time, input_size).

    Attributes:
        mode: Mode of the pass.
        lengths: (batch,) valid steps.
        noise: Noise of the draws; it may hold several samples per sequence.
        hidden: h_0, (layers · directions, batch, d).
        memory: c_0 of an LSTM.
        steps: Which steps of the output are returned.
        embedding: (vocabulary, input_size), where the input is token ids.
        readout: Output of a finite-state layer; its own where None.
        final: Whether h_n and c_n will be read.
    """

    mode: LayerMode
    lengths: Tensor | None = None
    noise: Noise | None = None
    hidden: Tensor | None = None
    memory: Tensor | None = None
    steps: Steps = "all"
    embedding: Tensor | None = None
    readout: Readout | None = None
    final: bool = False


class Output(NamedTuple):
    """The result of a pass; ``hidden`` and ``memory`` are valid where the call asked for them by ``final``."""

    output: Tensor  # (rows, time, directions · d), or (rows, 1, …) for the last step
    hidden: Tensor | None = None
    memory: Tensor | None = None


class LayerState(NamedTuple):
    """State of a layer between two steps."""

    hidden: Tensor  # (layers · directions, rows, d)
    memory: Tensor | None  # of an LSTM
