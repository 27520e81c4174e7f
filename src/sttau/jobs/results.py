"""Results as JSON lines: the metrics, with settings, versions and hardware; compressed in files that end in ``.gz``."""

from __future__ import annotations

import gzip
import json
import logging
import os
import platform
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch

from sttau.errors import ResultsError, reading
from sttau.files import set_aside, write_atomically
from sttau.version import __version__

_log = logging.getLogger(__name__)

#: Types of the fields of a result in JSON.
_TYPES: dict[str, tuple[type, ...]] = {
    **dict.fromkeys(("experiment", "data", "method", "hardware"), (str,)),
    **dict.fromkeys(("metrics", "settings", "versions"), (dict,)),
    "states": (int, type(None)),
    "seed": (int,),
    "seconds": (int, float),
}


def versions() -> dict[str, str]:
    """Return the versions of the packages that results may depend on."""
    return {
        "sttau": __version__,
        "python": platform.python_version(),
        **{name: _installed(name) for name in ("torch", "numpy", "scikit-learn")},
    }


@cache
def _installed(name: str) -> str:
    """Return the version of a package, which is read from a file."""
    return version(name)


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
    """Write results as JSON lines, atomically; compressed if the name ends in ``.gz``."""
    content = "".join(json.dumps(asdict(result), sort_keys=True) + "\n" for result in results).encode()
    return write_atomically(path, gzip.compress(content, mtime=0) if path.suffix == ".gz" else content)


def read_results(path: str | os.PathLike[str]) -> list[Result]:
    """Read results written by :func:`write_results`.

    Blank lines are left out, and so are repetitions of a line, which would count as additional seeds; they are logged.

    Raises:
        ResultsError: If a line is not a result, or if two lines are different results of the same cell; it names the
            file and the line.
    """
    path = Path(path)
    found: dict[str, tuple[int, Result]] = {}
    for number, line in _lines(path):
        result = _parse(line, f"{path}, line {number}")
        first, same = found.setdefault(_identity(result), (number, result))
        if same.metrics != result.metrics:
            raise ResultsError(
                f"{path}: lines {first} and {number} are different results of the same cell "
                f"({result.method} on {result.data}, seed {result.seed}). Remove one of them."
            )
        if first != number:
            _log.warning("%s: line %d repeats line %d and is left out", path, number, first)
    return [result for _, result in found.values()]


def earlier_results(path: str | os.PathLike[str]) -> list[Result]:
    """Read the results of an earlier run that is continued; none if there is no file.

    A damaged file is renamed to ``NAME.damaged``, which is logged. Its whole lines are returned; the others are
    computed again.
    """
    path = Path(path)
    if not path.exists():
        return []
    try:
        return read_results(path)
    except ResultsError as error:
        damaged = set_aside(path)
        _log.warning("%s The file is now called %s", error, damaged.name)
    kept: dict[str, Result] = {}
    for number, line in _lines(damaged):
        with suppress(ResultsError):
            result = _parse(line, f"line {number}")
            kept[_identity(result)] = result
    return list(kept.values())


def _lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """Lines with their numbers, without blank ones."""
    content = path.read_bytes()
    if path.suffix == ".gz":
        with reading(path, ResultsError, "Compute the results again."):
            content = _decompress(content)
    for number, line in enumerate(content.split(b"\n"), 1):
        if line.strip():
            yield number, line


def _decompress(content: bytes) -> bytes:
    if not content:
        raise ValueError("it is empty")
    try:
        return gzip.decompress(content)
    except OSError as error:  # the system has read the file: its content is wrong
        raise ValueError(str(error)) from error


def _parse(line: bytes, source: str) -> Result:
    """Return the result in a line; an error that names the source where there is none."""
    with reading(source, ResultsError, "Remove the line, or compute the results again."):
        return result_from(json.loads(line))


def result_from(values: Any) -> Result:
    """Return a result from its fields, after checking their types."""
    if not isinstance(values, dict):
        raise TypeError(f"a result is a JSON object, not {type(values).__name__}")
    for name, kinds in _TYPES.items():
        if type(values.get(name)) not in kinds:
            raise TypeError(f"{name} is {values.get(name)!r:.100}")
    wrong = [name for name, value in values["metrics"].items() if type(value) not in (int, float)]
    if wrong:
        raise TypeError(f"the metric {wrong[0]} is {values['metrics'][wrong[0]]!r:.100}")
    return Result(**values)


def _identity(result: Result) -> str:
    """All that a result depends on."""
    parts = (result.experiment, result.data, result.method, result.states, result.seed, result.settings)
    return json.dumps(parts, sort_keys=True)
