"""A temporary copy of the package with one new file and one more name in a registry."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import sttau


def extend(folder: Path, file: str, content: str, registry: str, after: str, name: str) -> None:
    """Copy the package into a folder, write one new file, and add its name to a list of file names.

    Args:
        folder: Empty folder; the copy is its subfolder ``sttau``.
        file: New file, relative to the package.
        content: Content of the new file.
        registry: File with the list of names, relative to the package.
        after: Name in that list, after which the new one is inserted.
        name: New name.
    """
    package = folder / "sttau"
    shutil.copytree(Path(sttau.__file__).parent, package, ignore=shutil.ignore_patterns("__pycache__"))
    assert not (package / file).exists()
    (package / file).write_text(content, "utf-8")
    text = (package / registry).read_text("utf-8")
    assert text.count(f'"{after}",') == 1
    (package / registry).write_text(text.replace(f'"{after}",', f'"{after}", "{name}",'), "utf-8")


def run(folder: Path, code: str) -> None:
    """Run code with the copy as the package."""
    checked = f"import sttau\nassert sttau.__file__.startswith({str(folder)!r}), sttau.__file__\n{code}"
    done = subprocess.run(
        [sys.executable, "-c", checked],
        env=os.environ | {"PYTHONPATH": str(folder)},
        cwd=folder,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
