"""Comparison of several methods, trained in the same way on the same data: one table and one figure."""

from sttau.comparison.run import compare
from sttau.comparison.table import Comparison
from sttau.methods import METHODS, Factory

__all__ = ["METHODS", "Comparison", "Factory", "compare"]
