"""The finite-state recurrence on the engine that :mod:`sttau.engine.backend` chooses."""

from __future__ import annotations

from torch import Tensor

from sttau.engine import backend
from sttau.engine.backend import Engine
from sttau.engine.noise import Noise
from sttau.engine.recurrence import factored, reference
from sttau.engine.recurrence.reference import Cell, Mode, Readout, Run, Steps, Weights


def run(
    cell: Cell,
    inputs: Tensor,
    weights: Weights,
    hidden: Tensor | None = None,
    memory: Tensor | None = None,
    *,
    noise: Noise | None = None,
    mode: Mode = "soft",
    readout: Readout = "state",
    lengths: Tensor | None = None,
    reverse: bool = False,
    steps: Steps = "all",
    embedding: Tensor | None = None,
    final: bool = True,
    engine: Engine | None = None,
) -> Run:
    """Run one layer in one direction over a batch; see :func:`sttau.engine.recurrence.reference.run` for the arguments.

    With ``final=False`` the result's ``hidden`` is not computed. ``engine`` forces an engine; the default is the
    fastest one that can run the layer.
    """
    device, dtype = weights.input.device, weights.input.dtype
    states, size = weights.states.shape
    if engine is None and backend.is_transformed(device):
        engine = "reference"
    name = backend.choose("recurrence", device, dtype, size=size, states=states, engine=engine)
    with backend.full_precision(device):
        if name == "reference":
            return reference.run(
                cell, inputs, weights, hidden, memory, noise=noise, mode=mode, readout=readout, lengths=lengths,
                reverse=reverse, steps=steps, embedding=embedding,
            )  # fmt: skip
        return factored.run(
            name, cell, inputs, weights, hidden, memory, noise=noise, mode=mode, readout=readout, lengths=lengths,
            reverse=reverse, steps=steps, embedding=embedding, final=final,
        )  # fmt: skip
