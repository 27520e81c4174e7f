"""Elementary functions of Vectors: exp, log, tanh and the logistic function.

In float32 they are polynomials without branches, accurate to about two units in the last place; in float64 they are
those of the C library.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from sttau.engine.simd.elementwise import elementwise, llvm_function
from sttau.engine.simd.vectors import Vector, constant

# Minimax polynomials: (2ʳ - 1)/r for |r| ≤ ½, the same of one degree more, and (log(1 + f) - f + f²/2)/f³ for
# √½ - 1 ≤ f ≤ √2 - 1.
_POWER = (0.6931472420692444, 0.24022233486175537, 0.055503081530332565, 0.00967192929238081, 0.0013407331425696611)
_POWER_FINE = (
    0.6931471824645996,
    0.24022650718688965,
    0.055503275245428085,
    0.009618003852665424,
    0.0013400338357314467,
    0.00015476344560738653,
)
_LOG = (
    0.33333316445350647,
    -0.25000810623168945,
    0.2000228613615036,
    -0.16624553501605988,
    0.14181192219257355,
    -0.1312876045703888,
    0.12881650030612946,
    -0.07859598100185394,
)
_LOG2_E = 1.4426950408889634
_LOG2_E_PARTS = (1.4426950216293335, 1.925963033500011e-08)  # its float32 part and the remainder
_LN2_PARTS = (0.693359375, -2.12194440e-4)  # the first part has few bits, so that its products are exact
_SHIFTER = 1.5 * 2.0**23  # a float32 of this size has no fractional bits: adding it rounds to an integer


def multiply_add(builder: Any, vector: Vector, a: Any, b: Any, c: Any) -> Any:
    """Code for a·b + c."""
    return llvm_function("fmuladd")(builder, vector, [a, b, c])


def _horner(builder: Any, vector: Vector, r: Any, coefficients: tuple[float, ...]) -> Any:
    value = constant(r.type, coefficients[-1])
    for coefficient in coefficients[-2::-1]:
        value = multiply_add(builder, vector, value, r, constant(r.type, coefficient))
    return value


def _clamp(builder: Any, x: Any, bound: float) -> Any:
    """x within ±bound; NaN stays NaN."""
    low, high = constant(x.type, -bound), constant(x.type, bound)
    x = builder.select(builder.fcmp_ordered("<", x, low), low, x)
    return builder.select(builder.fcmp_ordered(">", x, high), high, x)


def _split(builder: Any, vector: Vector, x: Any, factor: float) -> tuple[Any, Any]:
    """x·factor = n + r with an integer n and |r| ≤ ½, for float32; n is returned as n·2²³, ready for an exponent."""
    kind, integers = x.type, ir.VectorType(ir.IntType(32), vector.lanes)
    shifted = multiply_add(builder, vector, x, constant(kind, factor), constant(kind, _SHIFTER))
    n = builder.fsub(shifted, constant(kind, _SHIFTER))
    r = multiply_add(builder, vector, x, constant(kind, factor), builder.fneg(n))
    return builder.shl(builder.bitcast(shifted, integers), constant(integers, 23)), r


def _scale(builder: Any, value: Any, exponent: Any) -> Any:
    """value·2ⁿ."""
    return builder.bitcast(builder.add(builder.bitcast(value, exponent.type), exponent), value.type)


@intrinsic
def exp(_: Any, x: Any) -> Any:
    """e^x for |x| ≤ 87; at the bound beyond."""

    def build(builder: Any, vector: Vector, v: list[Any]) -> Any:
        if vector.element == types.float64:
            return llvm_function("exp")(builder, vector, [_clamp(builder, v[0], 700.0)])
        x = _clamp(builder, v[0], 87.0)
        exponent, r = _split(builder, vector, x, _LOG2_E_PARTS[0])
        r = multiply_add(builder, vector, x, constant(x.type, _LOG2_E_PARTS[1]), r)
        return _scale(builder, _horner(builder, vector, r, (1.0, *_POWER_FINE)), exponent)

    return elementwise((x,), build)


@intrinsic
def sigmoid(_: Any, x: Any) -> Any:
    """1 / (1 + e⁻ˣ), with an absolute error of 1e-7 in float32."""

    def build(builder: Any, vector: Vector, v: list[Any]) -> Any:
        one = constant(v[0].type, 1.0)
        if vector.element == types.float64:
            e = llvm_function("exp")(builder, vector, [builder.fneg(_clamp(builder, v[0], 700.0))])
        else:
            exponent, r = _split(builder, vector, _clamp(builder, v[0], 87.0), -_LOG2_E)
            e = _scale(builder, _horner(builder, vector, r, (1.0, *_POWER)), exponent)
        return builder.fdiv(one, builder.fadd(one, e))

    return elementwise((x,), build)


@intrinsic
def tanh(_: Any, x: Any) -> Any:
    """Hyperbolic tangent, in float32 with a small relative error also near 0."""

    def build(builder: Any, vector: Vector, v: list[Any]) -> Any:
        kind = v[0].type
        one, two = constant(kind, 1.0), constant(kind, 2.0)
        if vector.element == types.float64:
            x = _clamp(builder, v[0], 20.0)
            m = builder.fsub(llvm_function("exp")(builder, vector, [builder.fadd(x, x)]), one)
        else:  # e²ˣ - 1 = 2ⁿ(2ʳ - 1) + (2ⁿ - 1) loses nothing where n = 0
            exponent, r = _split(builder, vector, _clamp(builder, v[0], 10.0), 2 * _LOG2_E)
            power = _scale(builder, one, exponent)
            part = builder.fmul(r, _horner(builder, vector, r, _POWER))
            m = multiply_add(builder, vector, power, part, builder.fsub(power, one))
        return builder.fdiv(m, builder.fadd(m, two))

    return elementwise((x,), build)


@intrinsic
def log(_: Any, x: Any) -> Any:
    """log x for normal positive x, with a small relative error also near 1."""

    def build(builder: Any, vector: Vector, v: list[Any]) -> Any:
        if vector.element == types.float64:
            return llvm_function("log")(builder, vector, v)
        kind, integers = v[0].type, ir.VectorType(ir.IntType(32), vector.lanes)
        # x = m·2ⁿ with √½ ≤ m < √2: subtracting the bits of √½ leaves n in the exponent's place.
        half = constant(integers, 0x3F3504F3)
        above = builder.sub(builder.bitcast(v[0], integers), half)
        n = builder.sitofp(builder.ashr(above, constant(integers, 23)), kind)
        m = builder.bitcast(builder.add(builder.and_(above, constant(integers, 0x7FFFFF)), half), kind)
        f = builder.fsub(m, constant(kind, 1.0))
        square = builder.fmul(f, f)
        tail = multiply_add(builder, vector, f, _horner(builder, vector, f, _LOG), constant(kind, -0.5))
        tail = multiply_add(builder, vector, n, constant(kind, _LN2_PARTS[1]), builder.fmul(square, tail))
        return multiply_add(builder, vector, n, constant(kind, _LN2_PARTS[0]), builder.fadd(f, tail))

    return elementwise((x,), build)
