"""Arithmetic on Vectors, lane by lane, and reductions over the lanes."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types
from numba.core.errors import TypingError
from numba.core.typing.templates import AbstractTemplate, infer_global
from numba.extending import intrinsic, lower_builtin

from sttau.engine.simd.vectors import INT64, Vector, broadcast, call, constant, suffix

Build = Callable[[Any, Vector, list[Any]], Any]


def elementwise(operands: tuple[Any, ...], build: Build, result: Callable[[Vector], Any] = lambda v: v) -> Any:
    """Type and code of an intrinsic whose operands are Vectors or scalars, at least one of them a Vector."""
    vector = next((kind for kind in operands if isinstance(kind, Vector)), None)
    if vector is None:
        raise TypingError("one operand must be a Vector")

    def code(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        pairs = zip(values, signature.args, strict=True)
        return build(builder, vector, [broadcast(context, builder, v, kind, vector) for v, kind in pairs])

    return result(vector)(*operands), code


def llvm_function(name: str) -> Build:
    """Code that calls an LLVM intrinsic."""
    return lambda builder, vector, values: call(builder, f"llvm.{name}.{suffix(vector)}", values[0].type, values)


def _operator(function: Any, floating: str, integer: str) -> None:
    """Register an operator on Vectors with Numba; one of its operands may be a scalar."""

    @infer_global(function)
    class _Rule(AbstractTemplate):
        def generic(self, operands: tuple[Any, ...], _: Any) -> Any:
            vector = next((kind for kind in operands if isinstance(kind, Vector)), None)
            return vector(*operands) if vector is not None else None

    def code(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        vector = signature.return_type
        name = floating if isinstance(vector.element, types.Float) else integer
        pairs = zip(values, signature.args, strict=True)
        return getattr(builder, name)(*(broadcast(context, builder, v, kind, vector) for v, kind in pairs))

    for kinds in ((Vector, Vector), (Vector, types.Number), (types.Number, Vector)):
        lower_builtin(function, *kinds)(code)


_operator(operator.add, "fadd", "add")
_operator(operator.sub, "fsub", "sub")
_operator(operator.mul, "fmul", "mul")
_operator(operator.truediv, "fdiv", "udiv")
_operator(operator.xor, "", "xor")
_operator(operator.rshift, "", "lshr")


@intrinsic
def fma(_: Any, a: Any, b: Any, c: Any) -> Any:
    """a·b + c, rounded once where the hardware supports it."""
    return elementwise((a, b, c), llvm_function("fmuladd"))


@intrinsic
def larger(_: Any, a: Any, b: Any) -> Any:
    """The larger of each pair."""
    return elementwise((a, b), lambda builder, _, v: builder.select(builder.fcmp_ordered(">", *v), *v))


@intrinsic
def smaller(_: Any, a: Any, b: Any) -> Any:
    """The smaller of each pair."""
    return elementwise((a, b), lambda builder, _, v: builder.select(builder.fcmp_ordered("<", *v), *v))


@intrinsic
def where_positive(_: Any, a: Any, yes: Any, no: Any) -> Any:
    """``yes`` where a > 0, else ``no``."""

    def build(builder: Any, vector: Vector, v: list[Any]) -> Any:
        return builder.select(builder.fcmp_ordered(">", v[0], ir.Constant(v[0].type, None)), v[1], v[2])

    return elementwise((a, yes, no), build)


@intrinsic
def total(_: Any, a: Any) -> Any:
    """The sum over the lanes of a Vector, always in the same order."""

    def build(builder: Any, vector: Vector, v: list[Any]) -> Any:
        scalar = v[0].type.element
        return call(
            builder, f"llvm.vector.reduce.fadd.{suffix(vector)}", scalar, [ir.Constant(scalar, -0.0), *v], ("reassoc",)
        )

    return elementwise((a,), build, lambda vector: vector.element)


@intrinsic
def largest(_: Any, a: Any) -> Any:
    """The maximum over the lanes of a Vector; any value where one of them is NaN."""

    def build(builder: Any, vector: Vector, v: list[Any]) -> Any:
        # Halves are compared in turn: LLVM's own reduction takes ten times as long, to find NaN.
        whole, lanes = v[0], vector.lanes
        while lanes > 1:
            lanes //= 2
            kind = ir.VectorType(ir.IntType(32), lanes)
            halves = [
                builder.shuffle_vector(whole, whole, ir.Constant(kind, list(range(start, start + lanes))))
                for start in (0, lanes)
            ]
            whole = builder.select(builder.fcmp_ordered(">", *halves), *halves)
        return builder.extract_element(whole, ir.Constant(INT64, 0))

    return elementwise((a,), build, lambda vector: vector.element)


@intrinsic
def high_product(_: Any, a: Any, b: Any) -> Any:
    """The upper 32 bits of the product of 32-bit words."""

    def build(builder: Any, vector: Vector, v: list[Any]) -> Any:
        wide = ir.VectorType(INT64, vector.lanes)
        product = builder.mul(*(builder.zext(word, wide) for word in v))
        return builder.trunc(builder.lshr(product, constant(wide, 32)), v[0].type)

    return elementwise((a, b), build)
