"""All scaling methods by name. A new one is one new file with its ``SCALING``, and its name here."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from sttau.calibration.scaling import Scaling

#: The files with a ``SCALING``.
_FILES = (
    "temperature_scaling",
    "vector_scaling",
    "isotonic_scaling",
)

#: Every scaling method by the name of its class, which is the ``type`` in its ``state_dict``.
SCALINGS: dict[str, type[Scaling]] = {
    kind.__name__: kind for kind in (import_module(f"sttau.calibration.{file}").SCALING for file in _FILES)
}


def restore_scaling(state: dict[str, Any]) -> Scaling:
    """Restore a scaling from its ``state_dict``.

    Args:
        state: Result of ``state_dict``.

    Example:
        >>> from sttau.calibration import TemperatureScaling
        >>> restore_scaling(TemperatureScaling(1.5).state_dict()).temperature
        1.5
    """
    arguments = dict(state)
    kind = arguments.pop("type", None)
    if kind not in SCALINGS:
        raise ValueError(f"state must name one of {', '.join(SCALINGS)} as its type, got {kind!r}")
    return SCALINGS[kind](**arguments)
