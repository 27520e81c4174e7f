"""How a finite-state recurrence is executed: the specification, the engines that outrun it, and their choice."""

from sttau.engine.dispatch import Engine, choose, run, using
from sttau.engine.noise import Noise, fingerprint
from sttau.engine.reference import Cell, Mode, Readout, Run, Steps, Weights

__all__ = [
    "Cell",
    "Engine",
    "Mode",
    "Noise",
    "Readout",
    "Run",
    "Steps",
    "Weights",
    "choose",
    "fingerprint",
    "run",
    "using",
]
