"""The masked LSTM on a CPU, compiled by Numba: some rows at a time, all their steps one after another.

W_h is stored in blocks of four Vectors of columns, the last padded with zeros; a block times the rows' state is a
product whose sums stay in registers, and the gates follow while they are in the cache. Threads share the rows; a row's
values do not depend on the other rows.
"""

from __future__ import annotations

import torch
from torch import Tensor

from sttau.engine.simd import (
    BYTES,
    Array,
    fma,
    kernel,
    lanes_of,
    load,
    load_some,
    pointer,
    product4,
    sigmoid,
    store_some,
    strides,
    tanh,
    zeros,
)
from sttau.engine.simd.arrays import as_array, as_integers, empty, filled, to_panels
from sttau.engine.simd.threads import ranges, run_all

_ROWS = 24  # rows that one thread processes together


@kernel
def forward_rows(
    gates: Array, weights: Array, mask: Array, output: Array, cells: Array, dropped: Array, work: Array, nothing: Array,
    time: int, rows: int, d: int, low: int, high: int
) -> None:  # fmt: skip
    """Rows low … high; ``weights`` is (panels, d, 4 gates, lanes)."""
    lanes = BYTES // gates.itemsize
    panels = (d + lanes - 1) // lanes
    sums, none = pointer(work, 0), pointer(nothing, 0)
    for t in range(time):
        before, after = t * rows * d, (t + 1) * rows * d
        for v in range(panels):
            count = min(lanes, d - v * lanes)
            product4(
                sums, strides(0, 4 * lanes), none, strides(0), pointer(dropped, 0), strides(before + low * d, d, 1),
                pointer(weights, 0), strides(v * d * 4 * lanes, 0, 4 * lanes), d, high - low,
            )  # fmt: skip
            for r in range(low, high):
                at, own, q = (r - low) * 4 * lanes, r * d + v * lanes, (t * rows + r) * 4 * d + v * lanes
                i = sigmoid(load_some(gates, q, count) + load(sums, at))
                f = sigmoid(load_some(gates, q + d, count) + load(sums, at + lanes))
                n = tanh(load_some(gates, q + 2 * d, count) + load(sums, at + 2 * lanes))
                o = sigmoid(load_some(gates, q + 3 * d, count) + load(sums, at + 3 * lanes))
                c = fma(f, load_some(cells, before + own, count), i * n)
                h = o * tanh(c)
                store_some(gates, q, i, count)
                store_some(gates, q + d, f, count)
                store_some(gates, q + 2 * d, n, count)
                store_some(gates, q + 3 * d, o, count)
                store_some(cells, after + own, c, count)
                store_some(output, before + own, h, count)
                store_some(dropped, after + own, h * load_some(mask, own, count), count)


@kernel
def backward_rows(
    gates: Array, cells: Array, weights: Array, mask: Array, lengths: Array, grad_output: Array, carried: Array,
    delta: Array, work: Array, nothing: Array, time: int, rows: int, d: int, low: int, high: int
) -> None:  # fmt: skip
    """Rows low … high; ``weights`` is (blocks of four Vectors of units, 4 d gates, 4, lanes)."""
    lanes = BYTES // gates.itemsize
    size = 4 * lanes
    blocks = (d + size - 1) // size
    sums, none = pointer(work, 0), pointer(nothing, 0)
    for step in range(time):
        t = time - 1 - step
        before, after = t * rows * d, (t + 1) * rows * d
        for b in range(blocks):
            product4(
                sums, strides(0, size), none, strides(0), pointer(delta, 0), strides((after + low * d) * 4, 4 * d, 1),
                pointer(weights, 0), strides(b * 4 * d * size, 0, size), 4 * d, high - low,
            )  # fmt: skip
            for r in range(low, high):
                valid = lengths.size == 0 or t < lengths[r]
                for place in range(b * size, min(d, (b + 1) * size), lanes):
                    count, own = min(lanes, d - place), r * d + place
                    q = (t * rows + r) * 4 * d + place
                    if not valid:  # c is passed on unchanged
                        for gate in range(4):
                            store_some(delta, q + gate * d, zeros(gates), count)
                        continue
                    dh = load(sums, (r - low) * size + place - b * size) * load_some(mask, own, count)
                    if grad_output.size > 0:
                        dh = dh + load_some(grad_output, before + own, count)
                    i, f = load_some(gates, q, count), load_some(gates, q + d, count)
                    n, o = load_some(gates, q + 2 * d, count), load_some(gates, q + 3 * d, count)
                    tanh_c = tanh(load_some(cells, after + own, count))
                    dc = fma(dh, o - o * tanh_c * tanh_c, load_some(carried, own, count))
                    store_some(delta, q, dc * n * (i - i * i), count)
                    store_some(delta, q + d, dc * load_some(cells, before + own, count) * (f - f * f), count)
                    store_some(delta, q + 2 * d, dc * (i - i * n * n), count)
                    store_some(delta, q + 3 * d, dh * tanh_c * (o - o * o), count)
                    store_some(carried, own, dc * f, count)


def forward(gates: Tensor, recurrent: Tensor, mask: Tensor, output: Tensor, cells: Tensor, dropped: Tensor) -> None:
    """As :func:`sttau.engine.masked.stepwise.forward`."""
    (time, rows, _), d = gates.shape, mask.shape[1]
    buffers = [_flat(tensor) for tensor in (gates, mask, output, cells, dropped)]
    weight = as_array(recurrent)
    lanes = lanes_of(weight.itemsize)
    weights = to_panels(weight.reshape(4, d, d).transpose(2, 0, 1), lanes)
    nothing = filled(weight, 0, 4 * lanes)

    def carry(some: tuple[int, int]) -> None:
        work = empty(weight, (some[1] - some[0]) * 4 * lanes)
        forward_rows(buffers[0], weights, *buffers[1:], work, nothing, time, rows, d, *some)

    run_all(carry, _shares(rows), time * rows * d)


def backward(
    gates: Tensor,
    cells: Tensor,
    recurrent: Tensor,
    mask: Tensor,
    lengths: Tensor | None,
    grad_output: Tensor | None,
    carried: Tensor,
    delta: Tensor,
) -> None:
    """As :func:`sttau.engine.masked.stepwise.backward`."""
    (time, rows, _), d = gates.shape, mask.shape[1]
    weight = as_array(recurrent)
    lanes = lanes_of(weight.itemsize)
    size = 4 * lanes
    blocks = -(-d // size)
    padded = filled(weight, 0, 4 * d, blocks * size)
    padded[:, :d] = weight
    weights = empty(weight, blocks, 4 * d, size)
    weights[:] = padded.reshape(4 * d, blocks, size).transpose(1, 0, 2)
    ends = as_integers(lengths)
    coming = empty(weight, 0) if grad_output is None else _flat(grad_output)
    nothing = filled(weight, 0, size)

    def carry(some: tuple[int, int]) -> None:
        work = empty(weight, (some[1] - some[0]) * size)
        backward_rows(
            _flat(gates), _flat(cells), weights.reshape(-1), _flat(mask), ends, coming, _flat(carried), _flat(delta),
            work, nothing, time, rows, d, *some,
        )  # fmt: skip

    run_all(carry, _shares(rows), time * rows * d)


def _shares(rows: int) -> list[tuple[int, int]]:
    threads = torch.get_num_threads()
    return ranges(rows, min(_ROWS, -(-rows // threads)))


def _flat(tensor: Tensor) -> Array:
    """The tensor's own memory: writing to the array writes to the tensor."""
    flat: Array = tensor.detach().view(-1).numpy()
    return flat
