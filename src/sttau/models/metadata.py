"""What a model keeps of its training data, besides weights."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from sttau.data import Schema


class Metadata(NamedTuple):
    """Names of the data, and the roles of its columns."""

    class_names: tuple[str, ...] = ()
    feature_names: tuple[str, ...] = ()
    vocabulary: tuple[str, ...] | None = None
    schema: Schema | None = None

    def config(self) -> dict[str, Any]:
        """Return what there is as plain values."""
        values = {name: value for name, value in self._asdict().items() if value}
        return values | ({} if self.schema is None else {"schema": self.schema.to_dict()})

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> Metadata:
        """Return the metadata that :meth:`config` described.

        Example:
            >>> data = Metadata(("no", "yes"), schema=Schema("long", id="patient"))
            >>> Metadata.from_config(data.config()) == data
            True
        """
        values: dict[str, Any] = {name: tuple(value) for name, value in config.items() if name != "schema"}
        return cls(**values, schema=Schema.from_dict(config["schema"]) if "schema" in config else None)
