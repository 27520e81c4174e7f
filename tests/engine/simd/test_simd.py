"""Vectors in Numba kernels: accurate functions, distinct names, and caches that follow the sources."""

from __future__ import annotations

import importlib.util
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba
import numpy as np
import pytest
import torch
from numba import njit

from sttau.engine import simd
from sttau.engine.simd import compilation
from sttau.engine.simd.compilation import _stamp


@pytest.mark.parametrize(
    ("name", "low", "high", "absolute", "relative"),
    [
        ("exp", -86, 87, 0, 2e-7),
        ("log", 1e-30, 1, 0, 2e-7),
        ("sigmoid", -90, 90, 2e-7, 0),
        ("tanh", -12, 12, 2e-7, 2e-6),
    ],
)
def test_elementary_functions_are_accurate(
    name: str, low: float, high: float, absolute: float, relative: float
) -> None:
    function, lanes = getattr(simd, name), simd.lanes_of(4)
    load, store = simd.load, simd.store

    @njit  # type: ignore[untyped-decorator]
    def apply(x: Any, out: Any) -> None:
        for i in range(0, x.size, lanes):
            store(out, i, function(load(x, i)))

    x = np.linspace(low, high, 1 << 12).astype(np.float32)
    out = np.empty_like(x)
    apply(x, out)
    exact = getattr(torch, name)(torch.from_numpy(x).double()).numpy()
    assert np.all(np.abs(out - exact) <= absolute + relative * np.abs(exact))


def test_gates_saturate_and_keep_nan() -> None:
    functions, lanes = (simd.sigmoid, simd.tanh), simd.lanes_of(4)
    sigmoid, tanh, load, store = *functions, simd.load, simd.store

    @njit  # type: ignore[untyped-decorator]
    def apply(x: Any, out: Any) -> None:
        store(out, 0, sigmoid(load(x, 0)))
        store(out, lanes, tanh(load(x, 0)))

    x, out = np.zeros(lanes, dtype=np.float32), np.zeros(2 * lanes, dtype=np.float32)
    x[:4] = np.inf, -np.inf, 1e30, np.nan
    apply(x, out)
    np.testing.assert_allclose(out[:4], [1, 0, 1, np.nan], atol=1e-30)
    np.testing.assert_array_equal(out[lanes : lanes + 4], [1, -1, 1, np.nan])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_largest_lane_is_found_wherever_it_is(dtype: Any) -> None:
    largest, load = simd.largest, simd.load

    @njit  # type: ignore[untyped-decorator]
    def apply(x: Any) -> float:
        return largest(load(x, 0))  # type: ignore[no-any-return]

    lanes = simd.lanes_of(dtype().itemsize)
    for place in range(lanes):
        x = -np.arange(2, lanes + 2, dtype=dtype)
        x[place] = -1
        assert apply(x) == -1


def test_products_have_distinct_names() -> None:
    """Cached code calls by name; functions of one name were confused between processes."""
    names = {product.py_func.__qualname__ for product in (simd.product1, simd.product3, simd.product4)}
    assert len(names) == 3


def test_a_kernel_is_recompiled_when_a_file_of_its_functions_changes(tmp_path: Path) -> None:
    for name in ("cpu.py", "cpu_common.py", "triton.py"):
        (tmp_path / name).write_text("")
    before = _stamp(tmp_path)
    os.utime(tmp_path / "triton.py", (0, 0))
    assert _stamp(tmp_path) == before
    os.utime(tmp_path / "cpu_common.py", (0, 0))
    assert _stamp(tmp_path) != before


def test_the_stamp_of_a_kernel_covers_the_vectors_it_uses() -> None:
    from sttau.engine.masked import cpu

    _, stamp = cpu.forward_rows._cache._cache_file._version
    assert {"cpu.py", "vectors.py", "functions.py"} <= {name for name, _, _ in stamp}


# -- where kernels are cached ----------------------------------------------------------------------------------------


@pytest.fixture
def double(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], Any]:
    """Compiles a kernel of a package that cannot be written, for a user whose home folder cannot be written."""
    source = tmp_path / "package" / "cpu_double.py"
    source.parent.mkdir()
    source.write_text("def double(x):\n    return 2 * x\n")
    (source.parent / "__pycache__").write_text("not a folder")
    monkeypatch.setenv("HOME", os.devnull)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(numba.config, "CACHE_DIR", "")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    compilation._private_folder.cache_clear()
    compilation._warn_once.cache_clear()
    spec = importlib.util.spec_from_file_location("cpu_double", source)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return lambda: simd.kernel(module.double)


def test_where_nothing_can_be_written_kernels_are_cached_in_a_private_temporary_folder(
    double: Callable[[], Any], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    assert double()(21) == double()(21) == 42
    folder = tmp_path / f"sttau-kernels-{os.getuid()}"
    assert folder.stat().st_mode & 0o777 == 0o700
    assert list(folder.rglob("*.nbc"))
    assert caplog.text.count(f"compiled kernels are kept in {folder}") == 1
    assert numba.config.CACHE_DIR == ""


@pytest.mark.parametrize("obstacle", ["a file", "a folder of everybody", "none"])
def test_without_a_folder_to_trust_kernels_are_compiled_without_a_cache(
    double: Callable[[], Any], tmp_path: Path, caplog: pytest.LogCaptureFixture, obstacle: str
) -> None:
    folder = tmp_path / f"sttau-kernels-{os.getuid()}"
    if obstacle == "a file":
        folder.write_text("")
    elif obstacle == "a folder of everybody":
        folder.mkdir()
        folder.chmod(0o777)
    else:
        tempfile.tempdir = os.devnull
    assert double()(21) == double()(21) == 42
    assert not list(tmp_path.rglob("*.nbc"))
    assert caplog.text.count("there is no folder to keep compiled kernels in") == 1


@pytest.mark.parametrize("ending", ["nbi", "nbc"])
def test_a_damaged_cache_is_compiled_again(
    double: Callable[[], Any], tmp_path: Path, caplog: pytest.LogCaptureFixture, ending: str
) -> None:
    assert double()(21) == 42
    for path in tmp_path.rglob(f"*.{ending}"):
        path.write_bytes(path.read_bytes()[:-20])
    assert double()(21) == 42
    assert "the cache of compiled kernels cannot be used" in caplog.text


def test_a_full_disk_does_not_stop_a_kernel(
    double: Callable[[], Any], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    made = double()
    monkeypatch.setattr(os, "replace", fail)
    assert made(21) == 42
    assert "No space left on device" in caplog.text
