"""Settings every test runs under."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

import pytest
import torch
from hypothesis import settings

if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"  # before Triton is loaded: its kernels then run here, slowly

torch.set_num_threads(1)  # small recurrent steps are slower, not faster, when threads fight for a core

settings.register_profile("sttau", deadline=None, max_examples=25, derandomize=True)
settings.load_profile("sttau")

_REAL_DATA = Path(__file__).parents[1] / "shared" / "data"

if "PYTEST_XDIST_WORKER" not in os.environ:  # workers inherit what the first process sets
    if "STTAU_DATA" not in os.environ and _REAL_DATA.is_dir():
        os.environ["STTAU_DATA"] = str(_REAL_DATA)
    os.environ["STTAU_CACHE"] = tempfile.mkdtemp(prefix="sttau-tests-")  # shared by all workers, seen by nobody else


def pytest_unconfigure() -> None:
    if "PYTEST_XDIST_WORKER" not in os.environ:
        shutil.rmtree(os.environ["STTAU_CACHE"], ignore_errors=True)


def pytest_report_header() -> str:
    folder = os.environ.get("STTAU_DATA")
    return f"data: real files if all are in STTAU_DATA={folder}, else generated stand-ins; test names say which"


@pytest.fixture(autouse=True)
def _seeded() -> None:
    torch.manual_seed(0)
