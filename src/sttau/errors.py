"""Errors of the library. All are ``ValueError``, so that code which catches that keeps working."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

__all__ = [
    "AutomatonError",
    "CheckpointError",
    "DamagedCheckpointError",
    "DataError",
    "ModelFileError",
    "ResultsError",
    "SttauError",
]


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


class DamagedCheckpointError(CheckpointError):
    """A checkpoint whose content is not what was written."""


class AutomatonError(SttauError):
    """A file or text that holds no automaton of the expected kind."""


class ResultsError(SttauError):
    """A file of results with lines that cannot be read."""


@contextmanager
def reading(source: object, error: type[SttauError], remedy: str = "") -> Iterator[None]:
    """Turn whatever a parser raises into an error of the library that names the source.

    Errors of the library and of the operating system, which name a file themselves, pass.

    Args:
        source: File or text that is read, for the message.
        error: Class of the error.
        remedy: Last sentence of the message.

    Example:
        >>> with reading("weather.json", DataError, "Write it again."):
        ...     {}["rain"]
        Traceback (most recent call last):
        sttau.errors.DataError: weather.json is not valid: it lacks 'rain'. Write it again.
    """
    try:
        yield
    except (SttauError, OSError, ImportError):
        raise
    except Exception as problem:
        text = f"{type(problem).__name__}: {str(problem)[:500]}".rstrip(": ")
        if isinstance(problem, KeyError):
            text = f"it lacks {problem}"
        raise error(f"{source} is not valid: {text}. {remedy}".rstrip()) from problem
