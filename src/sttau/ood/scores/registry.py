"""All OOD scores by name. A new score is one new file with its ``SCORES``, and its name here."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

from torch import Tensor

#: The files with ``SCORES``, in the order of tables.
_FILES = (
    "max_probability",
    "variance",
    "entropy",
    "mutual_information",
)

#: Every score by its name.
SCORES: dict[str, Callable[[Any], Tensor]] = {
    name: score for file in _FILES for name, score in import_module(f"sttau.ood.scores.{file}").SCORES.items()
}
