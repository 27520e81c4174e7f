"""What a caller asks a reader for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sttau.data.dataset import Described
from sttau.data.schema import Schema
from sttau.errors import DataError

_SMALL = 1 << 30  # bytes that are never too many
_EXPANSION = 64  # bytes in memory per byte of a file


@dataclass(frozen=True)
class Request:
    """Roles of columns that were named, and how to read them; see :func:`sttau.data.read`."""

    roles: Schema
    like: Described | None = None
    features: Sequence[str] | None = None
    vocabulary_size: int = 5000
    split: str | None = None
    max_bytes: int | None = None

    def limit(self, size: int) -> int:
        """Return the largest size in memory of what a file of ``size`` bytes holds.

        Example:
            >>> Request(Schema()).limit(1000) == 2**30
            True
        """
        return self.max_bytes or max(_SMALL, _EXPANSION * size)

    @staticmethod
    def check_size(where: str, size: int, limit: int, what: str) -> None:
        """Raise if arrays would be larger than the limit, before they are made."""
        if size > limit:
            raise DataError(
                f"{where} would take {size / 2**30:.1f} GiB in memory ({what}), more than the {limit / 2**30:.1f} GiB "
                "allowed; is the file what you expect? If so, pass a larger max_bytes=."
            )
