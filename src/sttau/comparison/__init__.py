"""Several methods trained the same way on the same data: one table and one figure to decide by."""

from sttau.comparison.methods import METHODS, Factory
from sttau.comparison.run import compare
from sttau.comparison.table import Comparison

__all__ = ["METHODS", "Comparison", "Factory", "compare"]
