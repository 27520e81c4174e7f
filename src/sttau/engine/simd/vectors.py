"""The type ``Vector``, a SIMD register as one value in Numba, and the LLVM code that its operations share."""

from __future__ import annotations

from typing import Any

import llvmlite.binding as llvm
import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.datamodel import models
from numba.extending import register_model

Array = np.ndarray[Any, Any]
INT64 = ir.IntType(64)


def _machine() -> tuple[int, int]:
    """Bytes in a vector register of this machine, and the number of registers for the sums of a matrix product."""
    features = llvm.get_host_cpu_features()
    if features.get("avx512f"):
        return 64, 24
    if features.get("avx2"):
        return 32, 12
    return 16, 24 if features.get("neon") else 12


BYTES, SUMS = _machine()


def lanes_of(itemsize: int) -> int:
    """Number of values of this size in a Vector."""
    return BYTES // itemsize


class Vector(types.Type):
    """Numba's type of a SIMD register."""

    def __init__(self, element: Any, lanes: int) -> None:
        self.element, self.lanes = element, lanes
        super().__init__(name=f"Vector({element}, {lanes})")


@register_model(Vector)
class _VectorModel(models.PrimitiveModel):
    def __init__(self, manager: Any, kind: Vector) -> None:
        super().__init__(manager, kind, ir.VectorType(manager.lookup(kind.element).get_value_type(), kind.lanes))


def float_vector(element: Any) -> Vector:
    """The Vector of a floating-point type."""
    return Vector(element, lanes_of(element.bitwidth // 8))


def word_vector(lanes: int) -> Vector:
    """A Vector of 32-bit words."""
    return Vector(types.uint32, lanes)


def constant(vector: Any, value: float) -> ir.Constant:
    """The same constant in every lane."""
    return ir.Constant(vector, [value] * vector.count)


def broadcast(context: Any, builder: Any, value: Any, kind: Any, vector: Vector) -> Any:
    """The LLVM value of an operand: a Vector unchanged, a scalar broadcast to all lanes."""
    if kind == vector:
        return value
    whole = context.get_value_type(vector)
    scalar = context.cast(builder, value, kind, vector.element)
    one = builder.insert_element(ir.Constant(whole, ir.Undefined), scalar, ir.Constant(INT64, 0))
    return builder.shuffle_vector(one, one, constant(ir.VectorType(ir.IntType(32), vector.lanes), 0))


def address(context: Any, builder: Any, kind: Any, array: Any, i: Any, pointee: Any) -> Any:
    """The address of ``array[i]``; an array may be a NumPy array or a bare ``pointer``."""
    data = array if isinstance(kind, types.CPointer) else context.make_array(kind)(context, builder, array).data
    return builder.bitcast(builder.gep(data, [i]), pointee.as_pointer())


def call(builder: Any, name: str, returns: Any, values: list[Any], fastmath: tuple[str, ...] = ()) -> Any:
    """Call an LLVM intrinsic by name."""
    signature = ir.FunctionType(returns, [value.type for value in values])
    return builder.call(cgutils.get_or_insert_function(builder.module, signature, name), values, fastmath=fastmath)


def suffix(vector: Vector) -> str:
    """The suffix of an LLVM intrinsic for this Vector, such as ``v8f32``."""
    return f"v{vector.lanes}f{vector.element.bitwidth}"
