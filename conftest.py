"""Settings of all tests."""

from __future__ import annotations

import gc
import os
import shutil
import tempfile
from collections.abc import Iterator
from fnmatch import fnmatchcase

# Before NumPy, SciPy and PyTorch are loaded: each process of pytest and each that a test starts has one thread, since
# threads that wait for work with small matrices take more time than the work.
for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"):
    os.environ.setdefault(name, "1")

import pytest
import torch
from hypothesis import settings

from sttau.seeds import seed_generators

if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"  # before Triton is imported: its kernels then run on a CPU

torch.set_num_threads(1)  # small recurrent steps are slower with several threads per core

settings.register_profile("sttau", deadline=None, max_examples=25, derandomize=True)
settings.load_profile("sttau")

_INTERPRETER = ("tests/engine/*/test_triton*.py", "tests/engine/stacked/*")
_SLOW = (  # they train networks, start processes, or read whole data sets; other tests are marked where they are
    "reproduction/tests/*",
    "tests/automata/extraction/*",
    "tests/automata/test_fidelity.py*",
    "tests/automata/learning/test_[!i]*.py*",  # all but imitation and intervals
    "tests/cli/*",
    "tests/comparison/test_run.py*",
    "tests/data/test_heartbeats.py*",
    "tests/data/test_household_power.py*",
    "tests/data/test_imdb.py*",
    "tests/data/test_registry.py*",
    "tests/data/test_reviews.py*",
    "tests/data/test_windows.py::test_household_power_*",
    "tests/export/test_onnx.py*",
    "tests/jobs/test_cluster.py*",
    "tests/jobs/test_local.py*",
    "tests/report/*",
    "tests/test_docs.py::test_the_code_on_a_page_runs*",
    "tests/test_learning_digits.py*",
    "tests/test_quickstart.py*",
    "tests/training/test_distributed.py*",
    "tests/training/test_resume.py*",
    "*::test_a_new_*_is_one_file_and_one_*",
)

if "PYTEST_XDIST_WORKER" not in os.environ:  # workers inherit what the first process sets
    os.environ["STTAU_CACHE"] = tempfile.mkdtemp(prefix="sttau-tests-")  # shared by all workers, used by no one else


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "interpreter: runs Triton kernels on a CPU; not in `make quicktest`")
    config.addinivalue_line("markers", "slow: trains networks, starts processes or reads whole data sets; likewise")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Keep what is there after the collection, thousands of tests and modules, out of later searches for garbage."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if any(fnmatchcase(item.nodeid, f"{pattern}*") for pattern in _INTERPRETER):
            item.add_marker(pytest.mark.interpreter)
        if any(fnmatchcase(item.nodeid, pattern) for pattern in _SLOW):
            item.add_marker(pytest.mark.slow)


def pytest_unconfigure() -> None:
    gc.unfreeze()  # at the end, extension modules look for what was not collected
    if "PYTEST_XDIST_WORKER" not in os.environ:
        shutil.rmtree(os.environ["STTAU_CACHE"], ignore_errors=True)


def pytest_report_header() -> str:
    folder = os.environ.get("STTAU_DATA")
    if not folder:
        return "data: generated stand-ins; set STTAU_DATA to a folder with the real files to read those"
    return f"data: real files if STTAU_DATA={folder} holds all of them, else generated stand-ins; test names say which"


@pytest.fixture(autouse=True)
def _seeded() -> None:
    seed_generators(0)
