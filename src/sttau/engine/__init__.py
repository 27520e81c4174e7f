"""How recurrences are executed: one folder per operator, with its reference and fast forms, and one choice of engine.

===================  ==================================================================================================
``recurrence``       The finite-state recurrence of ST-τ. ``run`` is its entry point
``path_sum``         The exact distribution of the state, as a product of transition matrices
``masked``           An LSTM with a mask on its recurrent state: variational dropout
``stacked``          Several LSTMs of one shape at once
``noise``            Counter-based random values, the same on every engine
``simd``             Vectors for the kernels on a CPU
``backend``          The choice of engine, and the table of what each can compute
===================  ==================================================================================================
"""

from sttau.engine import backend, masked, noise, path_sum, recurrence, stacked
from sttau.engine.backend import Engine, choose, using
from sttau.engine.noise import Noise, fingerprint
from sttau.engine.recurrence import Cell, Mode, Readout, Run, Steps, Weights, run

__all__ = [
    "Cell",
    "Engine",
    "Mode",
    "Noise",
    "Readout",
    "Run",
    "Steps",
    "Weights",
    "backend",
    "choose",
    "fingerprint",
    "masked",
    "noise",
    "path_sum",
    "recurrence",
    "run",
    "stacked",
    "using",
]
