"""Files and score of the PAutomaC competition (Verwer, Eyraud and de la Higuera, 2014)."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sttau.errors import DataError
from sttau.formats import read_text

_SYMBOLS = 100_000  # more are the sign of a damaged file; the competition has at most 23


def read_pautomac(path: str | os.PathLike[str]) -> tuple[list[tuple[str, ...]], tuple[str, ...]]:
    r"""Return the strings of a training or test file, and its alphabet: the numbers of symbols as text.

    The first line has the number of strings and of symbols; every other one the length of a string and its symbols.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     file = Path(folder) / "1.pautomac.train"
        ...     _ = file.write_text("2 3\n2 0 2\n0\n")
        ...     read_pautomac(file)
        ([('0', '2'), ()], ('0', '1', '2'))
    """
    lines = read_text(path, DataError).splitlines()
    name = Path(path).name
    rows = [_integers(line, name, number) for number, line in enumerate(lines, 1) if line.strip()]
    if not rows or len(rows[0]) != 2:
        raise DataError(f"{name}, line 1: expected the number of strings and of symbols")
    (count, symbols), strings = rows[0], rows[1:]
    if len(strings) != count:
        raise DataError(f"{name} announces {count} strings, but has {len(strings)}; it is not complete")
    if not 1 <= symbols <= _SYMBOLS:
        raise DataError(f"{name}, line 1: the number of symbols must be between 1 and {_SYMBOLS:,}, got {symbols}")
    for number, row in enumerate(strings, 2):
        if row[0] != len(row) - 1 or any(not 0 <= symbol < symbols for symbol in row[1:]):
            raise DataError(f"{name}, line {number}: expected a length and as many symbols from 0 to {symbols - 1}")
    return [tuple(map(str, row[1:])) for row in strings], tuple(map(str, range(symbols)))


def read_pautomac_solution(path: str | os.PathLike[str]) -> NDArray[np.float64]:
    """Return the true probabilities of the test strings, normalized over them: a count, then one per line."""
    lines = read_text(path, DataError).split()
    try:
        values = np.array([float(line) for line in lines])
    except ValueError as error:
        raise DataError(f"{Path(path).name} must have one probability per line: {error}") from error
    if len(values) < 2 or len(values) - 1 != values[0] or (values[1:] < 0).any() or not values[1:].sum() > 0:
        raise DataError(f"{Path(path).name} must have the number of strings, and a probability for each")
    return np.asarray(values[1:] / values[1:].sum())


def pautomac_score(truth: NDArray[np.float64] | Sequence[float], log_probability: NDArray[np.float64]) -> float:
    """Return the score of the competition: 2^(−Σ p(x) log₂ q(x)), with p and q normalized over the test strings.

    Args:
        truth: (strings,) true probabilities of the test strings.
        log_probability: (strings,) natural logarithms of the learned probabilities.

    Example:
        >>> round(pautomac_score([0.5, 0.25, 0.25], np.log([0.1, 0.05, 0.05])), 6)  # 2 to the entropy, 1.5 bits
        2.828427
    """
    p = np.asarray(truth, dtype=np.float64)
    p = p / p.sum()
    q = log_probability - np.logaddexp.reduce(log_probability)
    return float(2 ** (-(p[p > 0] * q[p > 0]).sum() / np.log(2)))


def _integers(line: str, name: str, number: int) -> list[int]:
    try:
        return [int(part) for part in line.split()]
    except ValueError as error:
        raise DataError(f"{name}, line {number}: expected integers, got {line[:60]!r}") from error
