"""Errors of the library. All are ``ValueError``, so that code which catches that keeps working."""

from __future__ import annotations

__all__ = ["AutomatonError", "CheckpointError", "DataError", "ModelFileError", "ResultsError", "SttauError"]


class SttauError(ValueError):
    """Base of the library's errors about files and data; the message names the file, the place in it and the remedy.

    Example:
        >>> issubclass(DataError, SttauError) and issubclass(SttauError, ValueError)
        True
    """


class DataError(SttauError):
    """Data that cannot be read, or that does not fit the model."""


class ModelFileError(SttauError):
    """A model file that cannot be read, is damaged, or does not fit its own configuration."""


class CheckpointError(SttauError):
    """A checkpoint that cannot be read, or that belongs to another run."""


class AutomatonError(SttauError):
    """A file or text that holds no automaton of the expected kind."""


class ResultsError(SttauError):
    """A file of results with lines that cannot be read."""
