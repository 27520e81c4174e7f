"""Tables of texts, and of strings of a formal language: one row per sequence."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from sttau.data.cells import describe_rows
from sttau.data.columns import Table
from sttau.data.dataset import Described
from sttau.data.schema import list_names
from sttau.data.text import START, build_vocabulary, encode, tokenize
from sttau.errors import DataError

_MOST_SYMBOLS = 200


def read_texts(table: Table, name: str, like: Described | None, size: int) -> tuple[Tensor, Tensor, tuple[str, ...]]:
    """Return token ids of texts, lengths and the vocabulary.

    Args:
        table: Table with the column.
        name: Name of the column.
        like: Training data or a model, whose vocabulary is used.
        size: Number of tokens to keep otherwise.
    """
    cells: Any = table.columns[name]
    empty = [table.row(row) for row, cell in enumerate(cells) if cell is None or not tokenize(str(cell))]
    if empty:
        raise DataError(f"{table.name} has no text in {describe_rows(empty)}; leave such rows out")
    texts = list(map(str, cells))
    vocabulary = _known(table.name, like) or build_vocabulary(texts, size)
    return *encode(texts, vocabulary), vocabulary


def read_strings(table: Table, name: str, like: Described | None) -> tuple[Tensor, Tensor, tuple[str, ...]]:
    """Return strings, character by character after the start token, lengths and the vocabulary."""
    strings = ["" if cell is None else str(cell) for cell in table.columns[name]]
    vocabulary = _known(table.name, like)
    if vocabulary is None:
        symbols = sorted(set("".join(strings)))
        if not symbols:
            raise DataError(f"{table.name} holds only empty strings; expected at least one symbol")
        if START in symbols:
            raise DataError(f"{table.name} holds the symbol {START!r}, which is the start token; use another symbol")
        if len(symbols) > _MOST_SYMBOLS:
            raise DataError(
                f"{table.name} holds {len(symbols)} different characters; an alphabet has at most {_MOST_SYMBOLS}. "
                'For sentences pass layout="text".'
            )
        vocabulary = (START, *symbols)
    known = set(vocabulary)
    for row, string in enumerate(strings):
        unknown = [symbol for symbol in string if symbol not in known]
        if unknown:
            raise DataError(
                f"{table.name} has the symbol {unknown[0]!r} in row {table.row(row)}, which training had not: "
                f"{list_names(vocabulary[1:])}"
            )
    return *encode(strings, vocabulary), vocabulary


def _known(where: str, like: Described | None) -> tuple[str, ...] | None:
    if like is None:
        return None
    if like.vocabulary is None:
        raise DataError(
            f"{where} holds texts, but like has no vocabulary; was it trained on texts? "
            "For a model, call model.set_metadata(train) before it is saved."
        )
    return like.vocabulary
