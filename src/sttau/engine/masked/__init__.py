"""An LSTM with a mask on its recurrent state: variational dropout."""

from sttau.engine.masked.operator import run
from sttau.engine.masked.reference import MaskedWeights

__all__ = ["MaskedWeights", "run"]
