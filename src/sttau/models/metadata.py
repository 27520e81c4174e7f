"""What a model keeps of its data and its training, besides weights."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from sttau.data import Schema


class Metadata(NamedTuple):
    """Names of the data, the roles of its columns, and notes of other parts of the library, such as a policy's task."""

    class_names: tuple[str, ...] = ()
    feature_names: tuple[str, ...] = ()
    vocabulary: tuple[str, ...] | None = None
    schema: Schema | None = None
    notes: Mapping[str, Any] = {}  # never changed in place

    def config(self) -> dict[str, Any]:
        """Return what there is as plain values."""
        values = {name: value for name, value in self._asdict().items() if value}
        values |= {} if self.schema is None else {"schema": self.schema.to_dict()}
        return values | ({"notes": dict(self.notes)} if self.notes else {})

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> Metadata:
        """Return the metadata that :meth:`config` described.

        Example:
            >>> data = Metadata(("no", "yes"), schema=Schema("long", id="patient"), notes={"policy": {"task": "mdp"}})
            >>> Metadata.from_config(data.config()) == data
            True
        """
        values: dict[str, Any] = {
            name: tuple(value) for name, value in config.items() if name not in ("schema", "notes")
        }
        schema = Schema.from_dict(config["schema"]) if "schema" in config else None
        return cls(**values, schema=schema, notes=dict(config.get("notes", {})))
