"""The version of sttau."""

__version__ = "0.1.0"
