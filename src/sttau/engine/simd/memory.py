"""Vectors and scalars in memory: loads, stores and bare pointers."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic

from sttau.engine.simd.vectors import (
    BYTES,
    INT64,
    Array,
    address,
    broadcast,
    call,
    constant,
    float_vector,
    suffix,
    word_vector,
)


@intrinsic
def pointer(_: Any, array: Any, i: Any) -> Any:
    """A bare pointer to ``array[i]``, accepted by all functions here and valid while the array exists."""

    def code(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        return address(context, builder, array, values[0], values[1], context.get_value_type(array.dtype))

    return types.CPointer(array.dtype)(array, types.int64), code


@intrinsic
def get(_: Any, array: Any, i: Any) -> Any:
    """array[i]."""

    def code(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        place = address(context, builder, array, values[0], values[1], context.get_value_type(array.dtype))
        return builder.load(place)

    return array.dtype(array, types.int64), code


@intrinsic
def put(_: Any, array: Any, i: Any, value: Any) -> Any:
    """array[i] = value."""

    def code(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        place = address(context, builder, array, values[0], values[1], context.get_value_type(array.dtype))
        builder.store(context.cast(builder, values[2], value, array.dtype), place)
        return context.get_dummy_value()

    return types.void(array, types.int64, value), code


@intrinsic
def spread_at(_: Any, array: Any, i: Any) -> Any:
    """A Vector with ``array[i]`` in every lane."""
    vector = float_vector(array.dtype)

    def code(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        kind = context.get_value_type(vector)
        scalar = builder.load(address(context, builder, array, values[0], values[1], kind.element))
        return broadcast(context, builder, scalar, array.dtype, vector)

    return vector(array, types.int64), code


@intrinsic
def zeros(_: Any, array: Any) -> Any:
    """A Vector of zeros of ``array``'s type."""
    vector = float_vector(array.dtype)
    return vector(array), lambda context, builder, signature, values: ir.Constant(context.get_value_type(vector), None)


@intrinsic
def load(_: Any, array: Any, i: Any) -> Any:
    """The Vector that begins at ``array[i]``."""
    vector = float_vector(array.dtype)

    def code(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        whole = context.get_value_type(vector)
        return builder.load(
            address(context, builder, array, values[0], values[1], whole), align=array.dtype.bitwidth // 8
        )

    return vector(array, types.int64), code


@intrinsic
def store(_: Any, array: Any, i: Any, value: Any) -> Any:
    """Write a Vector to memory from ``array[i]`` on."""

    def code(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        place = address(context, builder, array, values[0], values[1], values[2].type)
        builder.store(values[2], place, align=array.dtype.bitwidth // 8)
        return context.get_dummy_value()

    return types.void(array, types.int64, value), code


def _mask(builder: Any, count: Any, lanes: int) -> Any:
    """Which lanes are among the first ``count``."""
    kind = ir.VectorType(ir.IntType(32), lanes)
    one = builder.insert_element(
        ir.Constant(kind, ir.Undefined), builder.trunc(count, ir.IntType(32)), ir.Constant(INT64, 0)
    )
    limit = builder.shuffle_vector(one, one, constant(kind, 0))
    return builder.icmp_signed("<", ir.Constant(kind, list(range(lanes))), limit)


@intrinsic
def load_some(_: Any, array: Any, i: Any, count: Any) -> Any:
    """As ``load``, but only the first ``count`` lanes are read; zero in the others."""
    vector = float_vector(array.dtype)

    def code(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        whole = context.get_value_type(vector)
        place = address(context, builder, array, values[0], values[1], whole)
        size = ir.Constant(ir.IntType(32), array.dtype.bitwidth // 8)
        parts = [place, size, _mask(builder, values[2], vector.lanes), ir.Constant(whole, None)]
        return call(builder, f"llvm.masked.load.{suffix(vector)}.p0", whole, parts)

    return vector(array, types.int64, types.int64), code


@intrinsic
def store_some(_: Any, array: Any, i: Any, value: Any, count: Any) -> Any:
    """As ``store``, but only the first ``count`` lanes are written."""

    def code(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        place = address(context, builder, array, values[0], values[1], values[2].type)
        size = ir.Constant(ir.IntType(32), array.dtype.bitwidth // 8)
        parts = [values[2], place, size, _mask(builder, values[3], value.lanes)]
        call(builder, f"llvm.masked.store.{suffix(value)}.p0", ir.VoidType(), parts)
        return context.get_dummy_value()

    return types.void(array, types.int64, value, types.int64), code


@intrinsic
def words_from(_: Any, array: Any, first: Any, step: Any) -> Any:
    """The 32-bit words first, first + step, …, one per lane of ``array``'s Vectors."""
    vector = word_vector(float_vector(array.dtype).lanes)

    def code(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        whole = context.get_value_type(vector)
        start, stride = (broadcast(context, builder, v, types.int64, vector) for v in values[1:])
        return builder.add(start, builder.mul(stride, ir.Constant(whole, list(range(vector.lanes)))))

    return vector(array, types.int64, types.int64), code


@intrinsic
def to_floats(_: Any, array: Any, words: Any) -> Any:
    """32-bit words below 2³¹ converted to ``array``'s floating-point type."""
    vector = float_vector(array.dtype)

    def code(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        return builder.sitofp(values[1], context.get_value_type(vector))

    return vector(array, words), code


@njit(nogil=True, _nrt=False)
def fill(out: Array, size: int, value: float) -> None:
    """out[:size] = value. (Numba takes seconds to compile an assignment to a slice.)"""
    for i in range(size):
        put(out, i, value)


@njit(nogil=True, _nrt=False)
def copy(out: Array, to: int, values: Array, start: int, size: int) -> None:
    """out[to : to + size] = values[start : start + size]."""
    for i in range(size):
        put(out, to + i, get(values, start + i))


@njit(nogil=True, _nrt=False)
def accumulate(out: Array, to: int, values: Array, start: int, size: int) -> None:
    """out[to : to + size] += values[start : start + size], ``size`` being a multiple of the lanes."""
    for i in range(0, size, BYTES // out.itemsize):
        store(out, to + i, load(out, to + i) + load(values, start + i))
