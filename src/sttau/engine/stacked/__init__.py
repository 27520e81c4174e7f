"""Several LSTMs of one shape at once."""

from sttau.engine.stacked.operator import Part, Weights, is_fast, run

__all__ = ["Part", "Weights", "is_fast", "run"]
