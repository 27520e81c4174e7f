"""Separator and decimal comma of CSV files."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from sttau.errors import DataError

_SEPARATORS = (",", ";", "\t", "|")
_NAMES = {",": "comma", ";": "semicolon", "\t": "tab", "|": "vertical bar"}
_COMMA = re.compile(r"\s*[+-]?(\d+|\d{1,3}(\.\d{3})+),\d+\s*")
_THOUSANDS = re.compile(r"\s*[+-]?[1-9]\d{0,2}(,\d{3})+\s*")  # such as 1,234, in a file whose separator is a comma
_POINT = re.compile(r"\s*[+-]?\d*\.\d+\s*")
_ROWS, _CHARACTERS = 1000, 1 << 16  # that are looked at


class Dialect(NamedTuple):
    """How a CSV file separates cells, and the digits of numbers."""

    separator: str
    comma: bool  # whether the decimal separator is a comma

    @property
    def remarks(self) -> tuple[str, ...]:
        """What to say where the file is not plain CSV."""
        if self.separator == "," and not self.comma:
            return ()
        return (f"separator: {_NAMES[self.separator]}" + (", decimal comma" if self.comma else ""),)


def find_dialect(path: Path) -> Dialect:
    r"""Return separator and decimal separator of a CSV file, judged by its first rows.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = Path(folder) / "t.csv"
        ...     _ = path.write_text("series;mv\na;1,5\na;2,25\n")
        ...     find_dialect(path)
        Dialect(separator=';', comma=True)
    """
    if path.suffix.lower() == ".tsv":
        sample = _sample(path, "\t")
        return Dialect("\t", _has_decimal_comma(sample))
    best, rows = ",", _sample(path, ",")
    for separator in _SEPARATORS[1:]:
        other = _sample(path, separator)
        if _columns(other) > _columns(rows):
            best, rows = separator, other
    return Dialect(best, _has_decimal_comma(rows, quoted=best == ","))


def _sample(path: Path, separator: str) -> list[list[str]]:
    with path.open(encoding="utf-8-sig", newline="") as file:
        lines = _first_lines(file)
        reader = csv.reader(lines, delimiter=separator)
        try:
            rows = [row for row in islice(reader, _ROWS) if row]
            return rows[:-1] if len(rows) > 2 and file.read(1) else rows  # the last may have been cut
        except csv.Error as error:
            raise DataError(
                f"{path.name} cannot be read at line {reader.line_num}: {error}; check the quotes"
            ) from error


def _first_lines(file: Iterable[str]) -> Iterator[str]:
    count = 0
    for line in file:
        yield line
        count += len(line)
        if count > _CHARACTERS:
            return


def _columns(rows: list[list[str]]) -> tuple[bool, int]:
    """Rank of a separator: first whether it gives several columns in all rows alike, then how many in the header."""
    width = len(rows[0]) if rows else 0
    return width > 1 and all(len(row) == width for row in rows), width


def _has_decimal_comma(rows: list[list[str]], quoted: bool = False) -> bool:
    """Whether numbers have a comma and none has a point; if they are quoted, one of them must not be in thousands."""
    cells = [cell for row in rows[1:] for cell in row]
    commas = [cell for cell in cells if _COMMA.fullmatch(cell)]
    if quoted and all(map(_THOUSANDS.fullmatch, commas)):
        return False
    return bool(commas) and not any(map(_POINT.fullmatch, cells))
