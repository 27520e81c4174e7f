"""The finite-state recurrence: the specification (``reference``), its factored form, and kernels for CPU and GPU."""

from sttau.engine.recurrence.operator import run
from sttau.engine.recurrence.reference import Cell, Mode, Readout, Run, Steps, Weights

__all__ = ["Cell", "Mode", "Readout", "Run", "Steps", "Weights", "run"]
