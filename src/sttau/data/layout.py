"""Layout of a table: long, wide, or one text or string per row."""

from __future__ import annotations

from collections.abc import Sequence

from sttau.data.cells import plain
from sttau.data.columns import Table
from sttau.data.dataset import Described
from sttau.data.schema import TIME_NAMES, Layout, Schema, list_names
from sttau.data.text import START
from sttau.data.wide_table import is_step, order_columns
from sttau.errors import DataError

_NUMBERED, _UNNUMBERED = 3, 8  # fewest columns by which a table is taken to be wide


def find_layout(
    table: Table, schema: Schema, like: Described | None, features: Sequence[str] | None, strings: bool = False
) -> tuple[Layout, tuple[str, ...]]:
    """Return the layout of a table and, where it was not given, why.

    Args:
        table: Table with its columns.
        schema: Roles of the columns.
        like: Training data or a model.
        features: Feature columns named by the caller.
        strings: Whether the file has one string per line.
    """
    if schema.layout is not None:
        return schema.layout, ()
    vocabulary = like.vocabulary if like is not None else None
    if schema.text is not None or strings:
        formal = vocabulary[0] == START if vocabulary else strings
        return ("strings" if formal else "text"), ()
    if vocabulary:
        raise DataError(
            f"{table.name} has no column of texts, which like was trained on; it has "
            f"{table.listing}. Name it with text=."
        )
    if like is not None and not like.feature_names:
        raise DataError(
            "like has no feature names; was it trained on a table? "
            "For a model, call model.set_metadata(train) before it is saved."
        )
    if like is not None and schema.id is not None and all(name in table.columns for name in like.feature_names):
        return "long", ()
    if schema.id is not None and len(set(map(plain, table.columns[schema.id]))) < table.rows:
        return "long", ()
    return _wide(table, schema, features)


def _wide(table: Table, schema: Schema, features: Sequence[str] | None) -> tuple[Layout, tuple[str, ...]]:
    """Return ``wide`` if the columns are the steps of a series; an error that says how to tell otherwise."""
    names = [
        name
        for name in (table.columns if features is None else features)
        if name not in schema.roles.values() and name.lower() not in TIME_NAMES
    ]
    numbers = [name for name in names if name in table.columns and is_step(table, name)]
    rows = f"each {schema.id!r} has one row" if schema.id else "no column identifies the series of a row"
    numbered = len(numbers) > 1 and _are_numbered(table.name, numbers)
    if len(numbers) >= (_NUMBERED if numbered else _UNNUMBERED) and (numbered or schema.time is None):
        return "wide", (f"wide: {rows}, and {list_names(numbers, 3)} are steps",)
    remedy = 'layout="long" for series of one step' if schema.id else "id= for a table with one row per step"
    raise DataError(
        f"{table.name}: cannot tell the layout: {rows}, and {list_names(numbers, 3)} are not clearly steps; it has the "
        f'columns {table.listing}. Pass {remedy}, text= for texts, or layout="wide" for one row per '
        "series. A single long series is cut into windows by sttau.data.windows."
    )


def _are_numbered(where: str, names: Sequence[str]) -> bool:
    try:
        return order_columns(where, names).numbered
    except DataError:
        return True  # some are; what is wrong is said when they are read
