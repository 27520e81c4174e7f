"""Lines of text as steps of series, or as words: what ``sttau predict --stdin`` reads."""

from __future__ import annotations

import csv
import json
import math
from typing import Any, NamedTuple

from sttau.data.cells import plain
from sttau.data.columns import Table
from sttau.data.dataset import Described
from sttau.data.features import feature_columns, make_features
from sttau.data.schema import Schema, list_names
from sttau.data.text import START, encode, tokenize
from sttau.errors import DataError


class Step(NamedTuple):
    """One step of a series."""

    id: str | None  # name of its series; None where lines do not name one
    values: list[float]  # features of the model, NaN where one is missing


class StepReader:
    r"""Reads lines as steps, by the columns of the training data: text is a category, and an empty cell is missing.

    A line is a JSON object, or cells separated by commas. Cells are in the order of a header, if the first line is one,
    or of the feature columns of the training data.

    Args:
        like: Model, or training data.
        count: Number of features, for a model without column names.
        id: Name of the column that identifies the series; that of the training data by default.

    Example:
        >>> from types import SimpleNamespace
        >>> schema = Schema(layout="long", id="patient", categories={"sex": ("f", "m")}, missing="keep")
        >>> reader = StepReader(SimpleNamespace(schema=schema, feature_names=("pulse", "sex=f", "sex=m")), 3)
        >>> reader.read("71,m")
        Step(id=None, values=[71.0, 0.0, 1.0])
        >>> reader.read('{"patient": "p1", "sex": "f"}')
        Step(id='p1', values=[nan, 1.0, 0.0])
    """

    def __init__(self, like: Described, count: int, id: str | None = None) -> None:
        self._schema = like.schema or Schema()
        self._asked, self._id = id, self._schema.id if id is None else id
        self._like = like
        names = like.feature_names or tuple(map(str, range(count)))
        self._columns = feature_columns(names, self._schema.categories)
        self._header: tuple[str, ...] = self._columns
        self._lines, self._begun = 0, False

    def read(self, line: str) -> Step | None:
        """Return the step of a line; None for a header and for an empty line."""
        self._lines += 1
        if not line.strip():
            return None
        where = f"line {self._lines} of the input"
        cells = self._object(where, line) if line.lstrip().startswith("{") else self._cells(where, line)
        is_first, self._begun = not self._begun, True
        if cells is None:
            return None
        if self._asked is not None and self._asked not in cells:
            remedy = "begin with a header that has it, or write JSON objects with it" if is_first else "name the series"
            raise DataError(f"{where} has no column {self._asked!r}, named by id=; {remedy}")
        columns: dict[str, Any] = {name: [_number(cells.get(name))] for name in self._columns}
        table = Table(where, columns, rows=1)
        features = make_features(table, self._columns, self._schema, self._like, self._schema.missing or "error")
        id = cells.get(self._id) if self._id is not None else None
        return Step(None if id is None else plain(id), features.values[0].tolist())

    def _object(self, where: str, line: str) -> dict[str, Any]:
        try:
            cells = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise DataError(f"{where} is not a JSON object ({error}); write one object per line") from error
        if not any(name in cells for name in self._columns):
            raise DataError(f"{where} has none of the columns {list_names(self._columns)}; name the values by them")
        return dict(cells)

    def _cells(self, where: str, line: str) -> dict[str, Any] | None:
        try:
            cells = next(csv.reader([line], strict=True))
        except csv.Error as error:
            raise DataError(f"{where} cannot be read as cells separated by commas ({error})") from error
        cells = [cell.strip() for cell in cells]
        if not self._begun and set(self._columns) <= set(cells):
            self._header = tuple(cells)
            return None
        if len(cells) != len(self._header):
            raise DataError(
                f"{where} must hold {len(self._header)} cells separated by commas ({list_names(self._header)}), "
                f"got {line!r}; or write a JSON object"
            )
        return dict(zip(self._header, cells, strict=True))


class TextReader:
    r"""Reads lines of text as token ids, made of the words as those of the training data were.

    Args:
        like: Model, or training data, with the vocabulary.

    Example:
        >>> from types import SimpleNamespace
        >>> reader = TextReader(SimpleNamespace(vocabulary=("<pad>", "<unk>", "a", "good", "film")))
        >>> reader.read("A GOOD film!", begins=True)
        [2, 3, 4, 1]
        >>> TextReader(SimpleNamespace(vocabulary=("^", "a", "b"))).read("ab", begins=True)
        [0, 1, 2]
    """

    def __init__(self, like: Described) -> None:
        if not like.vocabulary:
            raise DataError(
                "the model reads tokens but has no vocabulary, so that lines of text cannot be read; "
                "call model.set_metadata(train) before it is saved"
            )
        self._vocabulary = like.vocabulary
        self._lines = 0

    def read(self, line: str, begins: bool) -> list[int]:
        """Return the token ids of a line; none where it has no words.

        Args:
            line: Text, or symbols of a formal language.
            begins: Whether a sequence begins with this line: a string of a formal language then has its start token.
        """
        self._lines += 1
        if not line.strip():
            return []
        is_formal = self._vocabulary[0] == START
        if not is_formal and not tokenize(line):
            return []
        try:
            ids: list[int] = encode(line.strip() if is_formal else line, self._vocabulary)[0][0].tolist()
        except ValueError as error:
            raise DataError(f"line {self._lines} of the input: {error}") from error
        return ids[1:] if is_formal and not begins else ids


def _number(cell: Any) -> Any:
    """A cell as columns have it: numbers stay as they are, and what is missing is an empty text."""
    return "" if cell is None or (isinstance(cell, float) and math.isnan(cell)) else cell
