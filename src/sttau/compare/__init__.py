"""Several methods trained the same way on the same data: one table and one figure to decide by."""

from sttau.compare.run import compare
from sttau.compare.table import Comparison
from sttau.methods import METHODS, Factory

__all__ = ["METHODS", "Comparison", "Factory", "compare"]
