"""The version of sttau. The build reads it here, and nowhere else is it written but in CITATION.cff."""

__version__ = "0.1.0"
