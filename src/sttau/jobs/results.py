"""A result as it is kept: one line of JSON that says what was measured, with what, and on what."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch

from sttau.files import write_atomically
from sttau.version import __version__


def versions() -> dict[str, str]:
    """Versions of what a number can depend on."""
    return {
        "sttau": __version__,
        "python": platform.python_version(),
        **{name: version(name) for name in ("torch", "numpy", "scikit-learn")},
    }


def hardware() -> str:
    """Name the machine's processor, and its GPU where there is one."""
    if torch.cuda.is_available():
        return torch.cuda.get_device_name()
    return f"{platform.machine()} CPU, {os.cpu_count()} cores, {torch.get_num_threads()} threads used"


@dataclass(frozen=True)
class Result:
    """One cell of an experiment. Errors, calibration errors and areas are in percent."""

    experiment: str
    data: str
    method: str
    states: int | None
    seed: int
    metrics: dict[str, float]
    settings: dict[str, Any]
    seconds: float
    versions: dict[str, str] = field(default_factory=versions)
    hardware: str = field(default_factory=hardware)


def write_results(results: Iterable[Result], path: Path) -> Path:
    """Write results as JSON lines, in one step."""
    lines = (json.dumps(asdict(result), sort_keys=True) + "\n" for result in results)
    return write_atomically(path, "".join(lines).encode())


def read_results(path: Path) -> list[Result]:
    """Read what :func:`write_results` wrote."""
    return [Result(**json.loads(line)) for line in path.read_text("utf-8").splitlines()]
