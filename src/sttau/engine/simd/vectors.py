"""Vectors for Numba: a machine register of numbers as one value, and what a recurrent cell needs to do with it.

LLVM vectorises simple loops by itself, but gives up where a loop touches many arrays that might overlap, and at every
call of exp. Here a ``Vector`` is written down, so the code is vector code on every machine and its rounding does not
depend on what an optimizer saw. In float32 the elementary functions are polynomials without branches, good to about two
units in the last place; in float64 they are those of the C library.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import llvmlite.binding as llvm
import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.core import cgutils
from numba.core.datamodel import models
from numba.core.errors import TypingError
from numba.core.typing.templates import AbstractTemplate, infer_global
from numba.extending import intrinsic, lower_builtin, register_model

Array = np.ndarray[Any, Any]
_INT = ir.IntType(64)


def _machine() -> tuple[int, int]:
    """Bytes in a vector register of this machine, and how many registers a matrix product may use for its sums."""
    features = llvm.get_host_cpu_features()
    if features.get("avx512f"):
        return 64, 24
    if features.get("avx2"):
        return 32, 12
    return 16, 24 if features.get("neon") else 12


BYTES, SUMS = _machine()


def lanes_of(itemsize: int) -> int:
    """How many numbers of this size a Vector holds."""
    return BYTES // itemsize


class Vector(types.Type):
    """Numba's type of a register of numbers."""

    def __init__(self, element: Any, lanes: int) -> None:
        self.element, self.lanes = element, lanes
        super().__init__(name=f"Vector({element}, {lanes})")


@register_model(Vector)
class _VectorModel(models.PrimitiveModel):
    def __init__(self, manager: Any, kind: Vector) -> None:
        super().__init__(manager, kind, ir.VectorType(manager.lookup(kind.element).get_value_type(), kind.lanes))


def _floats(element: Any) -> Vector:
    return Vector(element, lanes_of(element.bitwidth // 8))


def _words(lanes: int) -> Vector:
    return Vector(types.uint32, lanes)


def _constant(vector: Any, value: float) -> ir.Constant:
    return ir.Constant(vector, [value] * vector.count)


def _in_every_lane(context: Any, builder: Any, value: Any, kind: Any, vector: Vector) -> Any:
    """The LLVM value of an operand: a Vector as it is, a number spread over the lanes."""
    if kind == vector:
        return value
    whole = context.get_value_type(vector)
    number = context.cast(builder, value, kind, vector.element)
    one = builder.insert_element(ir.Constant(whole, ir.Undefined), number, ir.Constant(_INT, 0))
    return builder.shuffle_vector(one, one, _constant(ir.VectorType(ir.IntType(32), vector.lanes), 0))


def _pointer(context: Any, builder: Any, kind: Any, array: Any, i: Any, pointee: Any) -> Any:
    """Where ``array[i]`` lies; an array may be a NumPy array or a bare ``pointer``."""
    data = array if isinstance(kind, types.CPointer) else context.make_array(kind)(context, builder, array).data
    return builder.bitcast(builder.gep(data, [i]), pointee.as_pointer())


def _call(builder: Any, name: str, returns: Any, values: list[Any], fastmath: tuple[str, ...] = ()) -> Any:
    signature = ir.FunctionType(returns, [value.type for value in values])
    return builder.call(cgutils.get_or_insert_function(builder.module, signature, name), values, fastmath=fastmath)


def _suffix(vector: Vector) -> str:
    return f"v{vector.lanes}f{vector.element.bitwidth}"


# ----------------------------------------------------------------------------------------------- elementwise operations

Build = Callable[[Any, Vector, list[Any]], Any]


def _elementwise(operands: tuple[Any, ...], build: Build, result: Callable[[Vector], Any] = lambda v: v) -> Any:
    """Type and code of an intrinsic whose operands are Vectors or numbers, at least one of them a Vector."""
    vector = next((kind for kind in operands if isinstance(kind, Vector)), None)
    if vector is None:
        raise TypingError("one operand must be a Vector")

    def code(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        pairs = zip(values, signature.args, strict=True)
        return build(builder, vector, [_in_every_lane(context, builder, v, kind, vector) for v, kind in pairs])

    return result(vector)(*operands), code


def _llvm(name: str) -> Build:
    return lambda builder, vector, values: _call(builder, f"llvm.{name}.{_suffix(vector)}", values[0].type, values)


def _operator(function: Any, floating: str, integer: str) -> None:
    """Teach Numba an operator on Vectors; one of its operands may be a number."""

    @infer_global(function)
    class _Rule(AbstractTemplate):
        def generic(self, operands: tuple[Any, ...], _: Any) -> Any:
            vector = next((kind for kind in operands if isinstance(kind, Vector)), None)
            return vector(*operands) if vector is not None else None

    def code(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        vector = signature.return_type
        name = floating if isinstance(vector.element, types.Float) else integer
        pairs = zip(values, signature.args, strict=True)
        return getattr(builder, name)(*(_in_every_lane(context, builder, v, kind, vector) for v, kind in pairs))

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
    """a·b + c, rounded once where the machine can."""
    return _elementwise((a, b, c), _llvm("fmuladd"))


@intrinsic
def larger(_: Any, a: Any, b: Any) -> Any:
    """The larger of each pair."""
    return _elementwise((a, b), lambda builder, _, v: builder.select(builder.fcmp_ordered(">", *v), *v))


@intrinsic
def smaller(_: Any, a: Any, b: Any) -> Any:
    """The smaller of each pair."""
    return _elementwise((a, b), lambda builder, _, v: builder.select(builder.fcmp_ordered("<", *v), *v))


@intrinsic
def where_positive(_: Any, a: Any, yes: Any, no: Any) -> Any:
    """``yes`` where a > 0, else ``no``."""

    def build(builder: Any, vector: Vector, v: list[Any]) -> Any:
        return builder.select(builder.fcmp_ordered(">", v[0], ir.Constant(v[0].type, None)), v[1], v[2])

    return _elementwise((a, yes, no), build)


@intrinsic
def total(_: Any, a: Any) -> Any:
    """The sum of a Vector's numbers, always in the same order."""

    def build(builder: Any, vector: Vector, v: list[Any]) -> Any:
        number = v[0].type.element
        return _call(
            builder, f"llvm.vector.reduce.fadd.{_suffix(vector)}", number, [ir.Constant(number, -0.0), *v], ("reassoc",)
        )

    return _elementwise((a,), build, lambda vector: vector.element)


@intrinsic
def largest(_: Any, a: Any) -> Any:
    """The largest of a Vector's numbers."""

    def build(builder: Any, vector: Vector, v: list[Any]) -> Any:
        return _call(builder, f"llvm.vector.reduce.fmax.{_suffix(vector)}", v[0].type.element, v)

    return _elementwise((a,), build, lambda vector: vector.element)


@intrinsic
def high_product(_: Any, a: Any, b: Any) -> Any:
    """The upper 32 bits of the product of 32-bit words."""

    def build(builder: Any, vector: Vector, v: list[Any]) -> Any:
        wide = ir.VectorType(_INT, vector.lanes)
        product = builder.mul(*(builder.zext(word, wide) for word in v))
        return builder.trunc(builder.lshr(product, _constant(wide, 32)), v[0].type)

    return _elementwise((a, b), build)


# --------------------------------------------------------------------------------------------------- from and to memory


@intrinsic
def pointer(_: Any, array: Any, i: Any) -> Any:
    """A bare pointer to ``array[i]``, good for all functions here, as long as the array lives."""

    def code(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        return _pointer(context, builder, array, values[0], values[1], context.get_value_type(array.dtype))

    return types.CPointer(array.dtype)(array, types.int64), code


@intrinsic
def get(_: Any, array: Any, i: Any) -> Any:
    """array[i]."""

    def code(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        place = _pointer(context, builder, array, values[0], values[1], context.get_value_type(array.dtype))
        return builder.load(place)

    return array.dtype(array, types.int64), code


@intrinsic
def put(_: Any, array: Any, i: Any, number: Any) -> Any:
    """array[i] = number."""

    def code(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        place = _pointer(context, builder, array, values[0], values[1], context.get_value_type(array.dtype))
        builder.store(context.cast(builder, values[2], number, array.dtype), place)
        return context.get_dummy_value()

    return types.void(array, types.int64, number), code


@intrinsic
def spread_at(_: Any, array: Any, i: Any) -> Any:
    """A Vector with ``array[i]`` in every lane."""
    vector = _floats(array.dtype)

    def code(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        kind = context.get_value_type(vector)
        number = builder.load(_pointer(context, builder, array, values[0], values[1], kind.element))
        return _in_every_lane(context, builder, number, array.dtype, vector)

    return vector(array, types.int64), code


@intrinsic
def zeros(_: Any, array: Any) -> Any:
    """A Vector of zeros of ``array``'s type."""
    vector = _floats(array.dtype)
    return vector(array), lambda context, builder, signature, values: ir.Constant(context.get_value_type(vector), None)


@intrinsic
def load(_: Any, array: Any, i: Any) -> Any:
    """The Vector that begins at ``array[i]``."""
    vector = _floats(array.dtype)

    def code(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        whole = context.get_value_type(vector)
        return builder.load(
            _pointer(context, builder, array, values[0], values[1], whole), align=array.dtype.bitwidth // 8
        )

    return vector(array, types.int64), code


@intrinsic
def store(_: Any, array: Any, i: Any, value: Any) -> Any:
    """Write a Vector to ``array[i]`` and what follows."""

    def code(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        place = _pointer(context, builder, array, values[0], values[1], values[2].type)
        builder.store(values[2], place, align=array.dtype.bitwidth // 8)
        return context.get_dummy_value()

    return types.void(array, types.int64, value), code


def _mask(builder: Any, count: Any, lanes: int) -> Any:
    """Which lanes are among the first ``count``."""
    kind = ir.VectorType(ir.IntType(32), lanes)
    one = builder.insert_element(
        ir.Constant(kind, ir.Undefined), builder.trunc(count, ir.IntType(32)), ir.Constant(_INT, 0)
    )
    limit = builder.shuffle_vector(one, one, _constant(kind, 0))
    return builder.icmp_signed("<", ir.Constant(kind, list(range(lanes))), limit)


@intrinsic
def load_some(_: Any, array: Any, i: Any, count: Any) -> Any:
    """As ``load``, but only the first ``count`` lanes are read; zero in the others."""
    vector = _floats(array.dtype)

    def code(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        whole = context.get_value_type(vector)
        place = _pointer(context, builder, array, values[0], values[1], whole)
        size = ir.Constant(ir.IntType(32), array.dtype.bitwidth // 8)
        parts = [place, size, _mask(builder, values[2], vector.lanes), ir.Constant(whole, None)]
        return _call(builder, f"llvm.masked.load.{_suffix(vector)}.p0", whole, parts)

    return vector(array, types.int64, types.int64), code


@intrinsic
def store_some(_: Any, array: Any, i: Any, value: Any, count: Any) -> Any:
    """As ``store``, but only the first ``count`` lanes are written."""

    def code(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        place = _pointer(context, builder, array, values[0], values[1], values[2].type)
        size = ir.Constant(ir.IntType(32), array.dtype.bitwidth // 8)
        parts = [values[2], place, size, _mask(builder, values[3], value.lanes)]
        _call(builder, f"llvm.masked.store.{_suffix(value)}.p0", ir.VoidType(), parts)
        return context.get_dummy_value()

    return types.void(array, types.int64, value, types.int64), code


@intrinsic
def words_from(_: Any, array: Any, first: Any, step: Any) -> Any:
    """The 32-bit words first, first + step, …, as many as ``array``'s Vectors have lanes."""
    vector = _words(_floats(array.dtype).lanes)

    def code(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        whole = context.get_value_type(vector)
        start, stride = (_in_every_lane(context, builder, v, types.int64, vector) for v in values[1:])
        return builder.add(start, builder.mul(stride, ir.Constant(whole, list(range(vector.lanes)))))

    return vector(array, types.int64, types.int64), code


@intrinsic
def numbers(_: Any, array: Any, words: Any) -> Any:
    """32-bit words below 2³¹ as floating-point numbers of ``array``'s type."""
    vector = _floats(array.dtype)

    def code(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        return builder.sitofp(values[1], context.get_value_type(vector))

    return vector(array, words), code


@njit(nogil=True, _nrt=False)
def fill(out: Array, size: int, number: float) -> None:
    """out[:size] = number. (Numba takes seconds to compile an assignment to a slice.)"""
    for i in range(size):
        put(out, i, number)


@njit(nogil=True, _nrt=False)
def copy(out: Array, to: int, values: Array, start: int, size: int) -> None:
    """out[to : to + size] = values[start : start + size]."""
    for i in range(size):
        put(out, to + i, get(values, start + i))


# ------------------------------------------------------------------------------------------------- elementary functions

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
_LOG2_E_PARTS = (1.4426950216293335, 1.925963033500011e-08)  # what float32 keeps of it, and the rest
_LN2_PARTS = (0.693359375, -2.12194440e-4)  # the first part has few bits, so that its products are exact
_SHIFTER = 1.5 * 2.0**23  # a float32 of this size has no bits behind the point: adding it rounds to a whole number


def _fma(builder: Any, vector: Vector, a: Any, b: Any, c: Any) -> Any:
    return _llvm("fmuladd")(builder, vector, [a, b, c])


def _horner(builder: Any, vector: Vector, r: Any, coefficients: tuple[float, ...]) -> Any:
    value = _constant(r.type, coefficients[-1])
    for coefficient in coefficients[-2::-1]:
        value = _fma(builder, vector, value, r, _constant(r.type, coefficient))
    return value


def _clamp(builder: Any, x: Any, bound: float) -> Any:
    """x within ±bound; NaN stays NaN."""
    low, high = _constant(x.type, -bound), _constant(x.type, bound)
    x = builder.select(builder.fcmp_ordered("<", x, low), low, x)
    return builder.select(builder.fcmp_ordered(">", x, high), high, x)


def _split(builder: Any, vector: Vector, x: Any, factor: float) -> tuple[Any, Any]:
    """x·factor = n + r with a whole n and |r| ≤ ½, for float32; n is returned as n·2²³, ready for an exponent."""
    kind, integers = x.type, ir.VectorType(ir.IntType(32), vector.lanes)
    shifted = _fma(builder, vector, x, _constant(kind, factor), _constant(kind, _SHIFTER))
    n = builder.fsub(shifted, _constant(kind, _SHIFTER))
    r = _fma(builder, vector, x, _constant(kind, factor), builder.fneg(n))
    return builder.shl(builder.bitcast(shifted, integers), _constant(integers, 23)), r


def _scale(builder: Any, value: Any, exponent: Any) -> Any:
    """value·2ⁿ."""
    return builder.bitcast(builder.add(builder.bitcast(value, exponent.type), exponent), value.type)


@intrinsic
def exp(_: Any, x: Any) -> Any:
    """e^x for |x| ≤ 87; at the bound beyond."""

    def build(builder: Any, vector: Vector, v: list[Any]) -> Any:
        if vector.element == types.float64:
            return _llvm("exp")(builder, vector, [_clamp(builder, v[0], 700.0)])
        x = _clamp(builder, v[0], 87.0)
        exponent, r = _split(builder, vector, x, _LOG2_E_PARTS[0])
        r = _fma(builder, vector, x, _constant(x.type, _LOG2_E_PARTS[1]), r)
        return _scale(builder, _horner(builder, vector, r, (1.0, *_POWER_FINE)), exponent)

    return _elementwise((x,), build)


@intrinsic
def sigmoid(_: Any, x: Any) -> Any:
    """1 / (1 + e⁻ˣ), with an absolute error of 1e-7 in float32."""

    def build(builder: Any, vector: Vector, v: list[Any]) -> Any:
        one = _constant(v[0].type, 1.0)
        if vector.element == types.float64:
            e = _llvm("exp")(builder, vector, [builder.fneg(_clamp(builder, v[0], 700.0))])
        else:
            exponent, r = _split(builder, vector, _clamp(builder, v[0], 87.0), -_LOG2_E)
            e = _scale(builder, _horner(builder, vector, r, (1.0, *_POWER)), exponent)
        return builder.fdiv(one, builder.fadd(one, e))

    return _elementwise((x,), build)


@intrinsic
def tanh(_: Any, x: Any) -> Any:
    """Hyperbolic tangent, in float32 with a small relative error also near 0."""

    def build(builder: Any, vector: Vector, v: list[Any]) -> Any:
        kind = v[0].type
        one, two = _constant(kind, 1.0), _constant(kind, 2.0)
        if vector.element == types.float64:
            x = _clamp(builder, v[0], 20.0)
            m = builder.fsub(_llvm("exp")(builder, vector, [builder.fadd(x, x)]), one)
        else:  # e²ˣ - 1 = 2ⁿ(2ʳ - 1) + (2ⁿ - 1) loses nothing where n = 0
            exponent, r = _split(builder, vector, _clamp(builder, v[0], 10.0), 2 * _LOG2_E)
            power = _scale(builder, one, exponent)
            part = builder.fmul(r, _horner(builder, vector, r, _POWER))
            m = _fma(builder, vector, power, part, builder.fsub(power, one))
        return builder.fdiv(m, builder.fadd(m, two))

    return _elementwise((x,), build)


@intrinsic
def log(_: Any, x: Any) -> Any:
    """log x for normal positive numbers, with a small relative error also near 1."""

    def build(builder: Any, vector: Vector, v: list[Any]) -> Any:
        if vector.element == types.float64:
            return _llvm("log")(builder, vector, v)
        kind, integers = v[0].type, ir.VectorType(ir.IntType(32), vector.lanes)
        # x = m·2ⁿ with √½ ≤ m < √2: subtracting the bits of √½ leaves n in the exponent's place.
        half = _constant(integers, 0x3F3504F3)
        above = builder.sub(builder.bitcast(v[0], integers), half)
        n = builder.sitofp(builder.ashr(above, _constant(integers, 23)), kind)
        m = builder.bitcast(builder.add(builder.and_(above, _constant(integers, 0x7FFFFF)), half), kind)
        f = builder.fsub(m, _constant(kind, 1.0))
        square = builder.fmul(f, f)
        tail = _fma(builder, vector, f, _horner(builder, vector, f, _LOG), _constant(kind, -0.5))
        tail = _fma(builder, vector, n, _constant(kind, _LN2_PARTS[1]), builder.fmul(square, tail))
        return _fma(builder, vector, n, _constant(kind, _LN2_PARTS[0]), builder.fadd(f, tail))

    return _elementwise((x,), build)


# ------------------------------------------------------------------------------------------------------ matrix products


@intrinsic(prefer_literal=True)
def _tile(
    _: Any, out: Any, place: Any, init: Any, begin: Any, left: Any, a: Any, right: Any, b: Any, depth: Any,
    rows: Any, columns: Any
) -> Any:  # fmt: skip
    """out = init + left · right for a few rows and Vectors of columns, with all sums in registers.

    ``place``, ``begin``, ``a`` and ``b`` are the ``strides`` of the four arrays.
    """
    vector, size = _floats(out.dtype), out.dtype.bitwidth // 8
    count, width = rows.literal_value, columns.literal_value

    def code(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        whole = context.get_value_type(vector)
        kinds = dict(zip(("out", "init", "left", "right"), (out, init, left, right), strict=True))
        arrays = dict(zip(kinds, (values[0], values[2], values[4], values[6]), strict=True))
        steps = {name: cgutils.unpack_tuple(builder, values[i]) for name, i in zip(kinds, (1, 3, 5, 7), strict=True)}

        def at(name: str, pointee: Any, row: int, column: int, step: Any = None) -> Any:
            offset, row_step, depth_step = steps[name]
            offset = builder.add(offset, builder.mul(row_step, ir.Constant(_INT, row)))
            if step is not None:
                offset = builder.add(offset, builder.mul(depth_step, step))
            offset = builder.add(offset, ir.Constant(_INT, column * vector.lanes))
            return _pointer(context, builder, kinds[name], arrays[name], offset, pointee)

        places = [(row, column) for row in range(count) for column in range(width)]
        sums = [builder.load(at("init", whole, *place), align=size) for place in places]
        before = builder.block
        loop, after = builder.append_basic_block("depth"), builder.append_basic_block("done")
        builder.cbranch(builder.icmp_signed(">", values[8], ir.Constant(_INT, 0)), loop, after)

        builder.position_at_end(loop)
        step = builder.phi(_INT)
        step.add_incoming(ir.Constant(_INT, 0), before)
        running = [builder.phi(whole) for _ in places]
        columns_now = [builder.load(at("right", whole, 0, column, step), align=size) for column in range(width)]
        news = []
        for row in range(count):
            number = builder.load(at("left", whole.element, row, 0, step))
            factor = _in_every_lane(context, builder, number, out.dtype, vector)
            for column in range(width):
                news.append(_fma(builder, vector, factor, columns_now[column], running[row * width + column]))
        following = builder.add(step, ir.Constant(_INT, 1))
        step.add_incoming(following, loop)
        for phi, first, new in zip(running, sums, news, strict=True):
            phi.add_incoming(first, before)
            phi.add_incoming(new, loop)
        builder.cbranch(builder.icmp_signed("<", following, values[8]), loop, after)

        builder.position_at_end(after)
        finals = [builder.phi(whole) for _ in places]
        for final, first, new in zip(finals, sums, news, strict=True):
            final.add_incoming(first, before)
            final.add_incoming(new, loop)
        for place, final in zip(places, finals, strict=True):
            builder.store(final, at("out", whole, *place), align=size)
        return context.get_dummy_value()

    return types.void(out, place, init, begin, left, a, right, b, types.int64, rows, columns), code


@njit(nogil=True, inline="always", _nrt=False)
def strides(offset: int, row: int = 0, depth: int = 0) -> Any:
    """Where a matrix begins in its array, and from one row, and one step of the sum, to the next.

    All of one type, constants too: Numba compiles a function anew for every constant in a tuple.
    """
    return np.int64(offset), np.int64(row), np.int64(depth)


@njit(nogil=True, inline="always", _nrt=False)
def _row(of: tuple[int, int, int], row: int) -> tuple[int, int, int]:
    return of[0] + row * of[1], of[1], of[2]


def _product(columns: int) -> Any:
    """Make ``product(out, place, init, begin, left, a, right, b, depth, rows)`` for so many Vectors of columns.

    It computes out = init + left · right for any number of rows; for the other arguments see ``_tile``.
    """
    most = min(8, SUMS // columns)

    def product(
        out: Array, place: tuple[int, int, int], init: Array, begin: tuple[int, int, int], left: Array,
        a: tuple[int, int, int], right: Array, b: tuple[int, int, int], depth: int, rows: int
    ) -> None:  # fmt: skip
        row = 0
        while rows - row >= most:
            _tile(out, _row(place, row), init, _row(begin, row), left, _row(a, row), right, b, depth, most, columns)
            row += most
        if rows - row >= 4:
            _tile(out, _row(place, row), init, _row(begin, row), left, _row(a, row), right, b, depth, 4, columns)
            row += 4
        if rows - row >= 2:
            _tile(out, _row(place, row), init, _row(begin, row), left, _row(a, row), right, b, depth, 2, columns)
            row += 2
        if row < rows:
            _tile(out, _row(place, row), init, _row(begin, row), left, _row(a, row), right, b, depth, 1, columns)

    # Compiled callers are kept on disk and name what they call by this: products of one name would be mixed up.
    product.__qualname__ = f"product{columns}"
    return njit(nogil=True, _nrt=False)(product)


product1, product3, product4 = _product(1), _product(3), _product(4)


@njit(nogil=True, _nrt=False)
def accumulate(out: Array, to: int, values: Array, start: int, size: int) -> None:
    """out[to : to + size] += values[start : start + size], for a whole number of Vectors."""
    for i in range(0, size, BYTES // out.itemsize):
        store(out, to + i, load(out, to + i) + load(values, start + i))
