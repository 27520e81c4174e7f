"""Vectors in Numba kernels: accurate functions, distinct names, and caches that follow the sources."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numba import njit

from sttau.engine import simd
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
