"""How kernels are compiled by Numba, where they are cached, and when a kernel on disk is out of date."""

from __future__ import annotations

import logging
import os
import stat
import tempfile
from collections.abc import Callable
from functools import cache, wraps
from pathlib import Path
from typing import Any

from numba import config, njit

_log = logging.getLogger(__name__)

# Without _nrt=False Numba counts references to arrays, with an atomic operation wherever one is named: twice as slow.
# Kernels therefore allocate nothing; their workspace is an argument.
device_function = njit(nogil=True, inline="always", error_model="numpy", _nrt=False)


def kernel(function: Callable[..., Any]) -> Any:
    """Compile a kernel on first use, and cache it until a file of this folder, or a ``cpu*.py`` of its own, changes.

    Numba itself compares only the file that contains the kernel, not those of the functions that it calls. It caches
    next to the package or in the home folder. Where neither can be written, as in many containers, the cache is in a
    private temporary folder, or there is none and every process compiles; that is logged once.
    """
    compiled = _compile(function)
    store = getattr(compiled, "_cache", None)
    file = getattr(store, "_cache_file", None)  # none where NUMBA_DISABLE_JIT is set
    if store is not None and file is not None:
        # Unlike the stamp of the source, the version is compared before anything else of a file is unpickled, so that a
        # class may be renamed or moved.
        file._version = (file._version, _stamp(Path(function.__code__.co_filename).parent))
        for name in ("load_overload", "save_overload"):
            setattr(store, name, _tolerant(getattr(store, name)))
    return compiled


def _compile(function: Callable[..., Any]) -> Any:
    options: dict[str, Any] = {"nogil": True, "error_model": "numpy", "_nrt": False}
    folder, usual = None, config.CACHE_DIR
    try:
        return njit(cache=True, **options)(function)
    except RuntimeError:  # no folder for the cache, or what the last attempt raises again
        folder = _private_folder()
    if folder is not None:
        config.CACHE_DIR = folder
        try:
            compiled = njit(cache=True, **options)(function)
            _warn_once(
                f"compiled kernels are kept in {folder}, since neither the package nor the home folder can be "
                "written; set NUMBA_CACHE_DIR to a folder that lasts"
            )
            return compiled
        except RuntimeError:
            pass
        finally:
            config.CACHE_DIR = usual
    compiled = njit(**options)(function)
    _warn_once(
        "there is no folder to keep compiled kernels in, so every process compiles them again, which takes "
        "seconds; set NUMBA_CACHE_DIR to a folder that can be written"
    )
    return compiled


@cache
def _private_folder() -> str | None:
    """Return a folder of this user alone below the temporary one; None where there is none that can be trusted.

    What Numba reads from its cache is executed, so nobody else may write there.
    """
    try:
        folder = Path(tempfile.gettempdir()) / f"sttau-kernels-{os.getuid()}"
        folder.mkdir(mode=0o700, exist_ok=True)
        found = folder.lstat()
    except (OSError, AttributeError):  # no temporary folder, or a system without user ids
        return None
    mine = stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and not found.st_mode & 0o077
    return str(folder) if mine else None


def _tolerant(method: Callable[..., Any]) -> Callable[..., Any]:
    """Let a cache that is damaged, or a disk that is full, cost time but not fail."""

    @wraps(method)
    def call(*arguments: Any) -> Any:
        try:
            return method(*arguments)
        except Exception as error:  # whatever unpickling half a file may raise
            _warn_once(f"the cache of compiled kernels cannot be used ({error!r}); they are compiled again")
            return None

    return call


@cache
def _warn_once(message: str) -> None:
    _log.warning(message)


def _stamp(folder: Path) -> tuple[tuple[str, float, int], ...]:
    """Names, times and sizes of the source files of a folder's kernels and of this folder."""
    files = sorted({*folder.glob("cpu*.py"), *Path(__file__).parent.glob("*.py")})
    return tuple((path.name, path.stat().st_mtime, path.stat().st_size) for path in files)
