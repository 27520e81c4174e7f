"""A temporary copy of the package, in which a test adds a part as a contributor would: one file and one line."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import sttau


def copy_package(folder: Path, package: ModuleType = sttau) -> Path:
    """Copy the library or another package into a folder, and return the copy."""
    assert package.__file__ is not None
    source = Path(package.__file__).parent
    return Path(shutil.copytree(source, folder / source.name, ignore=shutil.ignore_patterns("__pycache__")))


def replace_once(path: Path, old: str, new: str) -> None:
    """Replace a text that occurs once in a file."""
    text = path.read_text("utf-8")
    assert text.count(old) == 1, (path, old)
    path.write_text(text.replace(old, new), "utf-8")


def run_copy(package: Path, *arguments: str) -> str:
    """Run Python with the copy instead of the package, and return what it prints."""
    path = os.pathsep.join((str(package.parent), str(Path(sttau.__file__).parents[1])))
    environment = os.environ | {"PYTHONPATH": path}
    return subprocess.run(
        [sys.executable, *arguments], check=True, env=environment, stdout=subprocess.PIPE, text=True
    ).stdout
