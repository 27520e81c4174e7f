"""Training."""

from sttau.training.loop import Update, fit

__all__ = ["Update", "fit"]
