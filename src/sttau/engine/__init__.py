"""How a finite-state recurrence is executed: the reference, the exact path sum, and the noise they share."""

from sttau.engine.noise import Noise, fingerprint
from sttau.engine.reference import Cell, Mode, Readout, Run, Weights, run

__all__ = ["Cell", "Mode", "Noise", "Readout", "Run", "Weights", "fingerprint", "run"]
