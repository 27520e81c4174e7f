"""Roles of the columns of a table: what was understood of training data, and by which new data is read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, Literal, get_args

from sttau.errors import DataError

if TYPE_CHECKING:
    from sttau.data.dataset import Described

Layout = Literal["long", "wide", "text", "strings"]
Task = Literal["classification", "regression"]
Missing = Literal["error", "keep"]

#: Names by which columns are found where none are given, without regard to case.
ID_NAMES = ("sequence", "series", "id", "series_id")
TIME_NAMES = ("time", "t", "date", "datetime", "timestamp")
TARGET_NAMES = ("label",)
TEXT_NAMES = ("text",)


@dataclass(frozen=True)
class Schema:
    """Roles of the columns of a table.

    Attributes:
        layout: ``long`` (one row per step), ``wide`` (one row per series), ``text`` (one row per text) or ``strings``
            (one row per string of a formal language).
        id: Column that identifies the series.
        time: Column that orders the rows of a series.
        target: Column of targets.
        text: Column of texts or strings.
        group: Column of groups that a split keeps together.
        categories: Categories of each feature column that holds text.
        task: ``classification`` or ``regression``.
        missing: What is done where a feature is missing: ``error``, or ``keep`` for NaN.
        steps: Columns of the steps of a wide table, where their names are not numbered.
        numbering: Number of the first step of a wide table and distance of the next, if all are numbered so.

    Example:
        >>> schema = Schema(layout="long", id="patient", target="diagnosis", categories={"sex": ("f", "m")})
        >>> Schema.from_dict(schema.to_dict()) == schema
        True
    """

    layout: Layout | None = None
    id: str | None = None
    time: str | None = None
    target: str | None = None
    text: str | None = None
    group: str | None = None
    categories: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    task: Task | None = None
    missing: Missing | None = None
    steps: tuple[str, ...] = ()
    numbering: tuple[int, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return the roles that are known as plain values, for files."""
        return {name: value for name, value in asdict(self).items() if value}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Schema:
        """Return the schema that :meth:`to_dict` described."""
        known = {key: value for key, value in values.items() if key in {part.name for part in fields(cls)}}
        known["categories"] = {name: tuple(found) for name, found in dict(known.get("categories", {})).items()}
        known["steps"] = tuple(known.get("steps", ()))
        known["numbering"] = tuple(known.get("numbering", ()))
        return cls(**known)

    @property
    def roles(self) -> dict[str, str]:
        """Column of each role that has one."""
        found = {role: getattr(self, role) for role in ("id", "time", "target", "text", "group")}
        return {role: name for role, name in found.items() if name is not None}


def find_roles(
    where: str, names: Sequence[str], asked: Schema, like: Described | None, header: Sequence[str] = ()
) -> Schema:
    """Return the roles of columns: those asked for, those of ``like``, or those that the names suggest.

    Args:
        where: Name of the file, for messages.
        names: Names of the columns.
        asked: Roles named by the caller.
        like: Training data or a model.
        header: Names of all columns, for messages, where only those of ``names`` were read.

    Example:
        >>> find_roles("t.csv", ["ID", "t", "x", "label"], Schema(), None).roles
        {'id': 'ID', 'time': 't', 'target': 'label'}
    """
    for role, name in asked.roles.items():
        if name not in names and not (role in ("target", "group") and like is not None):
            raise DataError(f"{where} has no column {name!r}, named by {role}=; it has {list_names(header or names)}")
    before = like.schema if like is not None else None
    if before is None:
        defaults = {"id": ID_NAMES, "time": TIME_NAMES, "target": TARGET_NAMES, "text": TEXT_NAMES}
        taken = set(asked.roles.values())
        found = {role: _first(names, choices, taken) for role, choices in defaults.items()}
    else:
        kept = {role: name for role, name in before.roles.items() if name in names or role in ("target", "time")}
        found = {role: kept.get(role) for role in ("id", "time", "target", "text", "group")}
    unnamed: dict[str, Any] = {role: name for role, name in found.items() if getattr(asked, role) is None}
    roles = replace(asked, **unnamed)
    if before is not None:
        roles = replace(
            roles,
            layout=asked.layout or before.layout,
            categories=before.categories,
            task=before.task,
            missing=asked.missing or before.missing,
            steps=before.steps,
            numbering=before.numbering,
        )
    twice = [name for name in roles.roles.values() if list(roles.roles.values()).count(name) > 1]
    if twice:
        which = " and ".join(f"{role}=" for role, name in roles.roles.items() if name == twice[0])
        raise DataError(f"{where}: column {twice[0]!r} cannot be {which} at once; name another column for one of them")
    return roles


def _first(names: Sequence[str], choices: tuple[str, ...], taken: set[str]) -> str | None:
    by_lower = {name.lower(): name for name in reversed(names) if name not in taken}
    return next((by_lower[choice] for choice in choices if choice in by_lower), None)


def list_names(names: Sequence[str], most: int = 12) -> str:
    """Return names as text, the first few of many.

    Example:
        >>> list_names(["a", "b", "c"], most=2)
        'a, b and 1 more'
    """
    shown = ", ".join(names[:most])
    return (shown or "none") + (f" and {len(names) - most:,} more" if len(names) > most else "")


def check_choice(name: str, value: str | None, kind: Any) -> None:
    """Raise a clear error unless ``value`` is one of the strings of a ``Literal``, or None."""
    if value is not None and value not in get_args(kind):
        raise ValueError(f"{name} must be {' or '.join(map(repr, get_args(kind)))}, got {value!r}")
