"""The map of the house stays true."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import sttau

ROOT = Path(__file__).parents[1]


def test_tests_mirror_the_tree() -> None:
    rooms = {path.name for path in (ROOT / "src/sttau").iterdir() if path.is_dir() and (path / "__init__.py").exists()}
    assert rooms <= {path.name for path in (ROOT / "tests").iterdir()}


def test_importing_the_library_loads_nothing_heavy_that_may_not_be_needed() -> None:
    heavy = ["matplotlib", "typer", "rich", "sklearn", "pooch", "requests", "wfdb", "pandas", "pyarrow"]
    heavy += ["numba", "triton", "torchmetrics", "torch._dynamo", "gymnasium", "pygame", "PIL"]
    code = f"import sys, sttau; print([m for m in {heavy} if m in sys.modules])"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert shown == "[]\n"


def test_public_names_exist_and_have_documentation() -> None:
    for name in sttau.__all__:
        assert getattr(sttau, name).__doc__, name
