"""What the registry holds on a data set."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from sttau.data.dataset import SequenceDataset
from sttau.data.source import Source


class Entry(NamedTuple):
    """How a data set is loaded, and its description."""

    load: Callable[..., SequenceDataset]
    source: Source
    needs: tuple[Source, ...] = ()  # others that are read with it
