"""Results as JSON lines: the metrics, with settings, versions and hardware."""

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
    """Return the versions of the packages that results may depend on."""
    return {
        "sttau": __version__,
        "python": platform.python_version(),
        **{name: version(name) for name in ("torch", "numpy", "scikit-learn")},
    }


def hardware() -> str:
    """Return the name of the GPU, or a description of the CPU if there is none."""
    if torch.cuda.is_available():
        return torch.cuda.get_device_name()
    return f"{platform.machine()} CPU, {os.cpu_count()} cores, {torch.get_num_threads()} threads used"


@dataclass(frozen=True)
class Result:
    """Result of one cell. Errors, calibration errors and areas are in percent."""

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
    """Write results as JSON lines, atomically."""
    lines = (json.dumps(asdict(result), sort_keys=True) + "\n" for result in results)
    return write_atomically(path, "".join(lines).encode())


def read_results(path: Path) -> list[Result]:
    """Read results written by :func:`write_results`."""
    return [Result(**json.loads(line)) for line in path.read_text("utf-8").splitlines()]
