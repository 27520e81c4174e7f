"""What a model keeps of its data and its training, besides weights."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple


class Metadata(NamedTuple):
    """Names of the data, and notes of other parts of the library, such as the task of a policy."""

    class_names: tuple[str, ...] = ()
    feature_names: tuple[str, ...] = ()
    vocabulary: tuple[str, ...] | None = None
    notes: Mapping[str, Any] = {}  # never changed in place

    def config(self) -> dict[str, Any]:
        """Return what there is as plain values."""
        values = {name: value for name, value in self._asdict().items() if value}
        return values | ({"notes": dict(self.notes)} if self.notes else {})

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> Metadata:
        """Return the metadata that :meth:`config` described.

        Example:
            >>> Metadata.from_config({"class_names": ["no", "yes"], "notes": {"policy": {"task": "cartpole-mdp"}}})
            Metadata(class_names=('no', 'yes'), feature_names=(), vocabulary=None, \
notes={'policy': {'task': 'cartpole-mdp'}})
        """
        values: dict[str, Any] = {name: tuple(value) for name, value in config.items() if name != "notes"}
        return cls(**values, notes=dict(config.get("notes", {})))
