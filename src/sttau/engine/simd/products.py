"""Small matrix products whose sums stay in registers."""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic

from sttau.engine.simd.functions import multiply_add
from sttau.engine.simd.vectors import INT64, SUMS, Array, address, broadcast, float_vector


@intrinsic(prefer_literal=True)
def _tile(
    _: Any, out: Any, place: Any, init: Any, begin: Any, left: Any, a: Any, right: Any, b: Any, depth: Any,
    rows: Any, columns: Any
) -> Any:  # fmt: skip
    """out = init + left · right for a few rows and Vectors of columns, with all sums in registers.

    ``place``, ``begin``, ``a`` and ``b`` are the ``strides`` of the four arrays.
    """
    vector, size = float_vector(out.dtype), out.dtype.bitwidth // 8
    count, width = rows.literal_value, columns.literal_value

    def code(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        whole = context.get_value_type(vector)
        kinds = dict(zip(("out", "init", "left", "right"), (out, init, left, right), strict=True))
        arrays = dict(zip(kinds, (values[0], values[2], values[4], values[6]), strict=True))
        steps = {name: cgutils.unpack_tuple(builder, values[i]) for name, i in zip(kinds, (1, 3, 5, 7), strict=True)}

        def at(name: str, pointee: Any, row: int, column: int, step: Any = None) -> Any:
            offset, row_step, depth_step = steps[name]
            offset = builder.add(offset, builder.mul(row_step, ir.Constant(INT64, row)))
            if step is not None:
                offset = builder.add(offset, builder.mul(depth_step, step))
            offset = builder.add(offset, ir.Constant(INT64, column * vector.lanes))
            return address(context, builder, kinds[name], arrays[name], offset, pointee)

        places = [(row, column) for row in range(count) for column in range(width)]
        sums = [builder.load(at("init", whole, *place), align=size) for place in places]
        before = builder.block
        loop, after = builder.append_basic_block("depth"), builder.append_basic_block("done")
        builder.cbranch(builder.icmp_signed(">", values[8], ir.Constant(INT64, 0)), loop, after)

        builder.position_at_end(loop)
        step = builder.phi(INT64)
        step.add_incoming(ir.Constant(INT64, 0), before)
        running = [builder.phi(whole) for _ in places]
        columns_now = [builder.load(at("right", whole, 0, column, step), align=size) for column in range(width)]
        news = []
        for row in range(count):
            value = builder.load(at("left", whole.element, row, 0, step))
            factor = broadcast(context, builder, value, out.dtype, vector)
            for column in range(width):
                news.append(multiply_add(builder, vector, factor, columns_now[column], running[row * width + column]))
        following = builder.add(step, ir.Constant(INT64, 1))
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
    """Offset of a matrix in its array, its stride from row to row, and its stride along the summed dimension.

    All are int64, constants too: Numba recompiles a function for every constant in a tuple.
    """
    return np.int64(offset), np.int64(row), np.int64(depth)


@njit(nogil=True, inline="always", _nrt=False)
def _row(of: tuple[int, int, int], row: int) -> tuple[int, int, int]:
    return of[0] + row * of[1], of[1], of[2]


def _product(columns: int) -> Any:
    """Make ``product(out, place, init, begin, left, a, right, b, depth, rows)`` for this number of Vectors of columns.

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

    # Cached callers refer to their callees by qualified name: products of the same name would be confused.
    product.__qualname__ = f"product{columns}"
    return njit(nogil=True, _nrt=False)(product)


product1, product3, product4 = _product(1), _product(3), _product(4)
