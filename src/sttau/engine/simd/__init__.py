"""SIMD vectors for Numba kernels: a machine register as one value, and the operations of a recurrent cell on it.

LLVM vectorizes simple loops by itself, but not loops over many arrays that might overlap, nor loops that call exp.
Here a ``Vector`` is explicit, so the code is vector code on every machine and its rounding does not depend on the
optimizer.
"""

from sttau.engine.simd.compilation import device_function, kernel
from sttau.engine.simd.elementwise import fma, high_product, larger, largest, smaller, total, where_positive
from sttau.engine.simd.functions import exp, log, sigmoid, tanh
from sttau.engine.simd.memory import (
    accumulate,
    copy,
    fill,
    get,
    load,
    load_some,
    pointer,
    put,
    spread_at,
    store,
    store_some,
    to_floats,
    words_from,
    zeros,
)
from sttau.engine.simd.products import product1, product3, product4, strides
from sttau.engine.simd.vectors import BYTES, Array, Vector, lanes_of

__all__ = [
    "BYTES",
    "Array",
    "Vector",
    "accumulate",
    "copy",
    "device_function",
    "exp",
    "fill",
    "fma",
    "get",
    "high_product",
    "kernel",
    "lanes_of",
    "larger",
    "largest",
    "load",
    "load_some",
    "log",
    "pointer",
    "product1",
    "product3",
    "product4",
    "put",
    "sigmoid",
    "smaller",
    "spread_at",
    "store",
    "store_some",
    "strides",
    "tanh",
    "to_floats",
    "total",
    "where_positive",
    "words_from",
    "zeros",
]
