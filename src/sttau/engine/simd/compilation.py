"""How kernels are compiled by Numba, and when a kernel on disk is out of date."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from numba import njit

# Without _nrt=False Numba counts references to arrays, with an atomic operation wherever one is named: twice as slow.
# Kernels therefore allocate nothing; their workspace is an argument.
device_function = njit(nogil=True, inline="always", error_model="numpy", _nrt=False)


def kernel(function: Callable[..., Any]) -> Any:
    """Compile a kernel on first use, and cache it until a file of this folder, or a ``cpu*.py`` of its own, changes.

    Numba itself compares only the file that contains the kernel, not those of the functions that it calls.
    """
    compiled = njit(nogil=True, cache=True, error_model="numpy", _nrt=False)(function)
    file = getattr(getattr(compiled, "_cache", None), "_cache_file", None)  # none where NUMBA_DISABLE_JIT is set
    if file is not None:
        # Unlike the stamp of the source, the version is compared before anything else of a file is unpickled, so that a
        # class may be renamed or moved.
        file._version = (file._version, _stamp(Path(function.__code__.co_filename).parent))
    return compiled


def _stamp(folder: Path) -> tuple[tuple[str, float, int], ...]:
    """Names, times and sizes of the source files of a folder's kernels and of this folder."""
    files = sorted({*folder.glob("cpu*.py"), *Path(__file__).parent.glob("*.py")})
    return tuple((path.name, path.stat().st_mtime, path.stat().st_size) for path in files)
