"""The factored recurrence on a CPU, compiled by Numba: forward and backward.

A task owns a few sequences (with all their samples) and carries them through time alone; nothing is shared but the
weights. Time is cut in pieces small enough that everything a piece needs stays in the second-level cache:

    forward     project the piece's inputs ─▶ draw its noise ─▶ step by step: gates, u, logits, α
    backward    project the piece's inputs ─▶ step by step, from the end: δα, δu, δ of the gates ─▶ products for dU, dS, dW

A row of gates is stored in panels, one for every Vector of hidden units, with that panel's gates side by side: what one
Vector of u needs is contiguous, and is one tile of a matrix product. The panel's slots are

    LSTM   i  f  g  o                    read from the input and from the state
    GRU    n  r  z                       read from the input (n before the reset)
              r  z  n'  h                read from the state: the n that is reset, and h itself (its "weights" are S)

so for both cells the state's part is a combination of k rows of four slots, U (and S), with coefficients α_{t-1}; at a
row's first step it is the row ``start`` with coefficient 1. With few features their weights are such rows as well.

Every sum has a fixed order, given by the shapes alone: results depend neither on the number of threads nor, for a row's
values, on the rows beside it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from typing import Any, NamedTuple, TypeVar

import torch
from numba import njit
from torch import Tensor
from torch.nn.functional import pad

from sttau.engine.cpu_math import (
    BYTES,
    Array,
    accumulate,
    aligned,
    exp,
    fma,
    high_product,
    lanes_of,
    larger,
    largest,
    load,
    load_some,
    log,
    numbers,
    product1,
    product3,
    product4,
    sigmoid,
    spread_at,
    store,
    store_some,
    tanh,
    total,
    where_positive,
    words_from,
    zeros,
)
from sttau.engine.factored import Gradients, Problem, Results

_FEW_FEATURES = 8  # up to here x_t joins α_{t-1} as coefficients, and no projected input exists at all
_PIECE_BYTES = 1 << 19  # projected input of a piece: half a second-level cache
_PART_BYTES = 1 << 26  # the tasks' own sums of weight gradients, together
_SPAN_BYTES = 1 << 25  # with tokens, gate gradients wait in memory until they are summed token by token
_SMALL = 1 << 16  # numbers of u below which threads cost more than they save

_TABLE, _FEATURES, _DIRECT = 0, 1, 2  # where the input's part of the gates comes from

_kernel = njit(nogil=True, cache=True, error_model="numpy")
_inline = njit(nogil=True, forceinline=True, error_model="numpy")


class Plan(NamedTuple):
    """A problem as the kernels read it: flat arrays in panels, padded to whole Vectors, and plain numbers."""

    x: Array
    index: Array  # (time, batch)
    table: Array  # with tokens: (tokens, panels, slots, lanes), the projected vectors
    input: Array  # (panels, features, input slots, lanes)
    bias: Array  # (panels, slots, lanes)
    recurrent: Array  # (panels, states, 4, lanes)
    start: Array  # (1 or rows, panels, 4, lanes)
    first: Array  # (1 or rows, panels, lanes)
    states: Array  # (panels, states, lanes)
    peephole: Array  # (3, panels, lanes) or empty
    lengths: Array
    sequence: Array
    sample: Array
    time: int
    batch: int
    rows: int
    features: int
    hidden: int
    count: int  # k
    seed: int
    first_step: int
    layer: int
    piece: int  # steps
    source: int
    temperature: float
    lstm: bool
    noisy: bool
    hard: bool
    reverse: bool
    every: bool  # whether u is returned at every step
    final: bool  # whether u is returned at the last


# ------------------------------------------------------------------------------------------------ what both directions do


@_inline
def _sizes(p: Plan) -> tuple[int, int, int, int, int]:
    """Lanes, panels, slots of a panel, numbers in a row of gates, and k in whole Vectors."""
    lanes = BYTES // p.x.itemsize
    panels = (p.hidden + lanes - 1) // lanes
    slots = 4 if p.lstm else 5
    return lanes, panels, slots, (panels * slots + 1) * lanes, (p.count + lanes - 1) // lanes * lanes


@_inline
def _project(p: Plan, out: Array, at: int, row: int, step: int, rows: int) -> None:
    """The input's part of the gates for ``rows`` rows of x, ``step`` apart, from row ``row``."""
    lanes, panels, slots, width, _ = _sizes(p)
    f = p.features
    for v in range(panels):
        panel = v * slots * lanes
        place, begin, left = (at + panel, width), (panel, 0), (row * f, step * f, 1)
        if p.lstm:
            product4(out, place, p.bias, begin, p.x, left, p.input, (v * f * 4 * lanes, 4 * lanes), f, rows)
        else:
            product3(out, place, p.bias, begin, p.x, left, p.input, (v * f * 3 * lanes, 3 * lanes), f, rows)


@_inline
def _lstm_gates(p: Plan, v: int, base: Array, at: int, x: int, a: Array, a_at: int, m: Array, m_at: int, n: int) -> Any:
    """i, f, g, o of panel v before the nonlinearity: base + Σ_j a_j m_j, and the features' rows if they are few."""
    lanes = BYTES // p.x.itemsize
    at += v * 4 * lanes
    i, f, g, o = load(base, at), load(base, at + lanes), load(base, at + 2 * lanes), load(base, at + 3 * lanes)
    for j in range(n):
        factor, row = spread_at(a, a_at + j), m_at + j * 4 * lanes
        i, f = fma(factor, load(m, row), i), fma(factor, load(m, row + lanes), f)
        g, o = fma(factor, load(m, row + 2 * lanes), g), fma(factor, load(m, row + 3 * lanes), o)
    if p.source == _DIRECT:
        for j in range(p.features):
            factor, row = spread_at(p.x, x + j), (v * p.features + j) * 4 * lanes
            i, f = fma(factor, load(p.input, row), i), fma(factor, load(p.input, row + lanes), f)
            g, o = fma(factor, load(p.input, row + 2 * lanes), g), fma(factor, load(p.input, row + 3 * lanes), o)
    return i, f, g, o


@_inline
def _gru_gates(p: Plan, v: int, base: Array, at: int, x: int, a: Array, a_at: int, m: Array, m_at: int, n: int) -> Any:
    """n, r, z, n' of panel v before the nonlinearity, and h; as ``_lstm_gates``."""
    lanes = BYTES // p.x.itemsize
    at += v * 5 * lanes
    new, r, z = load(base, at), load(base, at + lanes), load(base, at + 2 * lanes)
    old, h = zeros(m), zeros(m)
    for j in range(n):
        factor, row = spread_at(a, a_at + j), m_at + j * 4 * lanes
        r, z = fma(factor, load(m, row), r), fma(factor, load(m, row + lanes), z)
        old, h = fma(factor, load(m, row + 2 * lanes), old), fma(factor, load(m, row + 3 * lanes), h)
    if p.source == _DIRECT:
        for j in range(p.features):
            factor, row = spread_at(p.x, x + j), (v * p.features + j) * 3 * lanes
            new, r = fma(factor, load(p.input, row), new), fma(factor, load(p.input, row + lanes), r)
            z = fma(factor, load(p.input, row + 2 * lanes), z)
    return new, r, z, old, h


@_inline
def _logits(p: Plan, z: Array, u: Array) -> None:
    """z = S u, four states at a time."""
    lanes, panels, _, _, _ = _sizes(p)
    j = 0
    while p.count - j >= 4:
        s0 = s1 = s2 = s3 = zeros(u)
        for v in range(panels):
            value, q = load(u, v * lanes), (v * p.count + j) * lanes
            s0, s1 = fma(value, load(p.states, q), s0), fma(value, load(p.states, q + lanes), s1)
            s2, s3 = fma(value, load(p.states, q + 2 * lanes), s2), fma(value, load(p.states, q + 3 * lanes), s3)
        z[j], z[j + 1], z[j + 2], z[j + 3] = total(s0), total(s1), total(s2), total(s3)
        j += 4
    while j < p.count:
        s0 = zeros(u)
        for v in range(panels):
            s0 = fma(load(u, v * lanes), load(p.states, (v * p.count + j) * lanes), s0)
        z[j] = total(s0)
        j += 1


# ----------------------------------------------------------------------------------------------------------------- forward


@_inline
def _draw(p: Plan, out: Array, at: int, row: int, t: int, steps: int, buffer: Array) -> None:
    """Gumbel noise (steps, k in whole Vectors) of one row from step t: see noise.py. A Vector's lanes are steps."""
    lanes, _, _, _, wide = _sizes(p)
    for block in range((p.count + 3) // 4):
        for i in range(0, steps, lanes):
            c0 = words_from(out, p.layer << 16 | block, 0)
            c1 = words_from(out, p.first_step + t + i, 1)
            c2, c3 = words_from(out, p.sample[row], 0), words_from(out, p.sequence[row], 0)
            k0, k1 = p.seed & 0xFFFFFFFF, (p.seed >> 32) & 0xFFFFFFFF
            for _ in range(10):
                high0, high2 = high_product(c0, 0xD2511F53), high_product(c2, 0xCD9E8D57)
                c0, c1, c2, c3 = high2 ^ c1 ^ k0, c2 * 0xCD9E8D57, high0 ^ c3 ^ k1, c0 * 0xD2511F53
                k0, k1 = (k0 + 0x9E3779B9) & 0xFFFFFFFF, (k1 + 0xBB67AE85) & 0xFFFFFFFF
            store(buffer, 0, _gumbel(out, c0))
            store(buffer, lanes, _gumbel(out, c1))
            store(buffer, 2 * lanes, _gumbel(out, c2))
            store(buffer, 3 * lanes, _gumbel(out, c3))
            for state in range(4 * block, min(4 * block + 4, p.count)):
                for step in range(i, min(i + lanes, steps)):
                    out[at + step * wide + state] = buffer[(state & 3) * lanes + step - i]


@_inline
def _gumbel(like: Array, bits: Any) -> Any:
    uniform = (numbers(like, bits >> 9) + 0.5) * 2.0**-23
    return 0.0 - log(0.0 - log(uniform))


@_inline
def _transition(p: Plan, z: Array, noise: Array, noise_at: int, alpha: Array, at: int) -> None:
    """alpha = softmax((z + noise)/τ), over the states and zeros up to a whole Vector; z is overwritten by z + noise."""
    lanes, _, _, _, wide = _sizes(p)
    peak = load(z, 0) * 0.0 - 1e30
    for j in range(0, wide, lanes):
        value = load(z, j)
        if p.noisy:
            value = value + load(noise, noise_at + j)
            store(z, j, value)
        peak = larger(peak, value)
    highest, inverse = largest(peak), 1.0 / p.temperature
    whole = zeros(z)
    for j in range(0, wide, lanes):
        below = (load(z, j) - highest) * inverse
        value = where_positive(below + 87.0, exp(below), 0.0)
        store(alpha, at + j, value)
        whole = whole + value
    scale = 1.0 / total(whole)
    for j in range(0, wide, lanes):
        store(alpha, at + j, load(alpha, at + j) * scale)


@_inline
def _harden(p: Plan, z: Array, alpha: Array, at: int) -> None:
    """One-hot at the largest z."""
    best = 0
    for j in range(1, p.count):
        if z[j] > z[best]:
            best = j
    for j in range(p.count):
        alpha[at + j] = 0.0
    alpha[at + best] = 1.0


@_inline
def _put(out: Array, to: int, values: Array, start: int, size: int) -> None:
    """Copy ``size`` numbers from where there is room for whole Vectors."""
    for i in range(0, size, BYTES // out.itemsize):
        store_some(out, to + i, load(values, start + i), size - i)


@_inline
def _copy(out: Array, to: int, values: Array, start: int, size: int) -> None:
    for i in range(size):
        out[to + i] = values[start + i]


@_kernel
def _forward_rows(
    p: Plan, alpha: Array, output: Array, last: Array, soft: Array, memory: Array, b0: int, b1: int, s0: int, s1: int
) -> None:
    """Run samples s0 … s1 of sequences b0 … b1 from their first step to their last."""
    lanes, panels, slots, width, wide = _sizes(p)
    d, k, full = p.hidden, p.count, panels * lanes
    mine = b1 - b0
    projected = aligned(mine * p.piece * width if p.source == _FEATURES else 0, p.x)
    rows = mine * (s1 - s0)
    noise = aligned(mine * p.piece * wide if p.noisy else 0, p.x)
    buffer = aligned(4 * lanes, p.x)
    a, c = aligned(rows * wide, p.x), aligned(rows * full, p.x)
    u, z = aligned(full, p.x), aligned(wide, p.x)
    noise[:] = 0.0
    z[:] = -1e30  # states beyond k are never taken
    one = aligned(lanes, p.x)
    one[:] = 1.0
    if p.lstm:
        for n in range(rows):
            row = (s0 + n // mine) * p.batch + b0 + n % mine
            _copy(c, n * full, p.first, row * full if p.first.size > full else 0, full)
    pieces = (p.time + p.piece - 1) // p.piece
    for number in range(pieces):
        t0 = (pieces - 1 - number if p.reverse else number) * p.piece
        steps = min(p.piece, p.time - t0)
        if p.source == _FEATURES:
            for b in range(b0, b1):
                valid = min(steps, p.lengths[b] - t0)
                if valid > 0:
                    _project(p, projected, (b - b0) * p.piece * width, t0 * p.batch + b, p.batch, valid)
        for s in range(s0, s1):
            if p.noisy:
                for b in range(b0, b1):
                    _draw(p, noise, (b - b0) * p.piece * wide, s * p.batch + b, t0, min(steps, p.lengths[b] - t0), buffer)
            for i in range(steps):
                t = t0 + (steps - 1 - i if p.reverse else i)
                for b in range(b0, b1):
                    length = p.lengths[b]
                    if t >= length:
                        continue
                    row, n = s * p.batch + b, (s - s0) * mine + b - b0
                    opening = t == (length - 1 if p.reverse else 0)
                    closing = t == (0 if p.reverse else length - 1)
                    # Where the two parts of the gates come from.
                    x = (t * p.batch + b) * p.features
                    if p.source == _TABLE:
                        base, at = p.table, p.index[t * p.batch + b] * width
                    elif p.source == _FEATURES:
                        base, at = projected, ((b - b0) * p.piece + t - t0) * width
                    else:
                        base, at = p.bias, 0
                    if opening:
                        factors, f_at, terms = one, 0, 1
                        m, m_at, panel = p.start, (row * panels * 4 * lanes if p.start.size > panels * 4 * lanes else 0), 4 * lanes
                    else:
                        factors, f_at, terms = a, n * wide, k
                        m, m_at, panel = p.recurrent, 0, k * 4 * lanes
                    if p.lstm:
                        for v in range(panels):
                            gi, gf, gg, go = _lstm_gates(p, v, base, at, x, factors, f_at, m, m_at + v * panel, terms)
                            old = load(c, n * full + v * lanes)
                            if p.peephole.size > 0:
                                gi = fma(load(p.peephole, v * lanes), old, gi)
                                gf = fma(load(p.peephole, full + v * lanes), old, gf)
                            new = fma(sigmoid(gf), old, sigmoid(gi) * tanh(gg))
                            if p.peephole.size > 0:
                                go = fma(load(p.peephole, 2 * full + v * lanes), new, go)
                            store(c, n * full + v * lanes, new)
                            store(u, v * lanes, sigmoid(go) * tanh(new))
                        if memory.size > 0:
                            _put(memory, (t * p.rows + row) * d, c, n * full, d)
                        if closing:
                            _put(last, row * d, c, n * full, d)
                    else:
                        for v in range(panels):
                            gn, gr, gz, gq, h = _gru_gates(p, v, base, at, x, factors, f_at, m, m_at + v * panel, terms)
                            new = tanh(fma(sigmoid(gr), gq, gn))
                            store(u, v * lanes, fma(sigmoid(gz), h - new, new))
                    if p.every:
                        _put(output, (t * p.rows + row) * d, u, 0, d)
                    elif p.final and closing:
                        _put(output, row * d, u, 0, d)
                    _logits(p, z, u)
                    _transition(p, z, noise, ((b - b0) * p.piece + t - t0) * wide, a, n * wide)
                    if p.hard:
                        if soft.size > 0:
                            _put(soft, (t * p.rows + row) * k, a, n * wide, k)
                        _harden(p, z, a, n * wide)
                    _put(alpha, (t * p.rows + row) * k, a, n * wide, k)


# ---------------------------------------------------------------------------------------------------------------- backward


class Sums(NamedTuple):
    """What backward writes. Arrays that begin with ``parts`` are sums of one task each, added up afterwards."""

    carry: Array  # (rows, k in whole Vectors): δα that comes from the step read next
    memory: Array  # (rows, panels, lanes): δc, likewise
    start: Array  # (rows, panels, 4, lanes)
    x: Array  # (time, batch, features) or empty
    gates: Array  # with tokens: (rows, steps of the span, panels, slots, lanes)
    recurrent: Array  # (parts, panels, states, 4, lanes)
    input: Array  # (parts, panels, features, input slots, lanes)
    bias: Array  # (parts, panels, slots, lanes)
    states: Array  # (parts, states, panels, lanes)
    peephole: Array  # (parts, 3, panels, lanes)
    temperature: Array  # (parts,)


@_inline
def _back_transition(p: Plan, a: Array, at: int, grad: Array, carry: Array, c_at: int, out: Array, o_at: int) -> float:
    """δ of the logits from δα = grad + carry, into ``out`` (zeros up to a whole Vector); returns δτ."""
    lanes, _, _, _, wide = _sizes(p)
    inverse = 1.0 / p.temperature
    mean = zeros(a)
    for j in range(0, wide, lanes):
        left = p.count - j
        value = load_some(a, at + j, left)
        delta = load_some(grad, at + j, left) + load(carry, c_at + j)
        store(out, o_at + j, delta)
        mean = fma(value, delta, mean)
    middle = total(mean)
    heat = zeros(a)
    for j in range(0, wide, lanes):
        value = load_some(a, at + j, p.count - j)
        delta = value * (load(out, o_at + j) - middle) * inverse
        store(out, o_at + j, delta)
        heat = fma(delta, where_positive(value, log(larger(value, 1e-37)), 0.0), heat)
    return -total(heat)


@_inline
def _back_state(p: Plan, v: int, sums: Array, d0: Any, d1: Any, d2: Any, d3: Any) -> None:
    """Add panel v of ⟨U_j, δ of the gates⟩, lane by lane, to the sums of all states j."""
    lanes = BYTES // p.x.itemsize
    for j in range(p.count):
        q = (v * p.count + j) * 4 * lanes
        s = fma(d0, load(p.recurrent, q), load(sums, j * lanes))
        s = fma(d1, load(p.recurrent, q + lanes), s)
        s = fma(d2, load(p.recurrent, q + 2 * lanes), s)
        store(sums, j * lanes, fma(d3, load(p.recurrent, q + 3 * lanes), s))


@_inline
def _back_input(p: Plan, weights: Array, out: Array, row: int, step: int, gates: Array, at: int, rows: int) -> None:
    """out (rows of x, ``step`` apart, from row ``row``) = Wᵀ δ of the gates."""
    lanes, panels, slots, width, _ = _sizes(p)
    f, inner = p.features, (4 if p.lstm else 3) * lanes
    columns = 4 if f > 3 * lanes else 1
    size = columns * lanes
    sums = aligned(rows * size, p.x)
    for q in range((f + size - 1) // size):
        sums[:] = 0.0
        for v in range(panels):
            left, right = (at + v * slots * lanes, width, 1), ((q * panels + v) * inner * size, size)
            if columns == 4:
                product4(sums, (0, size), sums, (0, size), gates, left, weights, right, inner, rows)
            else:
                product1(sums, (0, size), sums, (0, size), gates, left, weights, right, inner, rows)
        for i in range(rows):
            for j in range(min(size, f - q * size)):
                out[(row + i * step) * f + q * size + j] += sums[i * size + j]


@_inline
def _back_weights(p: Plan, v: int, out: Array, o: int, x: Array, a: tuple[int, int, int], gates: Array, g: int, depth: int, rows: int) -> None:
    """out (rows, input slots of panel v) += Σ x δ of the gates, over ``depth`` rows."""
    lanes, _, slots, width, _ = _sizes(p)
    right = (g + v * slots * lanes, width)
    if p.lstm:
        product4(out, (o, 4 * lanes), out, (o, 4 * lanes), x, a, gates, right, depth, rows)
    else:
        product3(out, (o, 3 * lanes), out, (o, 3 * lanes), x, a, gates, right, depth, rows)


@_kernel
def _backward_rows(
    p: Plan, weights: Array, alpha: Array, soft: Array, memory: Array, grad_alpha: Array, grad_output: Array, out: Sums,
    span0: int, span1: int, b0: int, b1: int, part: int
) -> None:  # fmt: skip
    """Carry gradients of sequences b0 … b1 back through the steps span0 … span1."""
    lanes, panels, slots, width, wide = _sizes(p)
    d, k, full, f = p.hidden, p.count, panels * lanes, p.features
    mine, shift, inner = b1 - b0, (0 if p.lstm else lanes), (4 if p.lstm else 3) * lanes
    projected = aligned(mine * p.piece * width if p.source == _FEATURES else 0, p.x)
    samples = p.rows // p.batch
    delta = projected if samples == 1 else aligned(mine * p.piece * width, p.x)
    if p.source != _FEATURES:
        delta = aligned(mine * p.piece * width, p.x)
    logits, us = aligned(mine * p.piece * wide, p.x), aligned(mine * p.piece * full, p.x)
    sums, one = aligned(k * lanes, p.x), aligned(lanes, p.x)
    one[:] = 1.0
    pieces = (span1 - span0 + p.piece - 1) // p.piece
    for number in range(pieces):
        t0 = span0 + (number if p.reverse else pieces - 1 - number) * p.piece
        steps = min(p.piece, span1 - t0)
        if p.source == _FEATURES:
            for b in range(b0, b1):
                valid = min(steps, p.lengths[b] - t0)
                if valid > 0:
                    _project(p, projected, (b - b0) * p.piece * width, t0 * p.batch + b, p.batch, valid)
        for s in range(samples):
            for i in range(steps):
                t = t0 + (i if p.reverse else steps - 1 - i)
                for b in range(b0, b1):
                    length = p.lengths[b]
                    if t >= length:
                        continue
                    row = s * p.batch + b
                    before = t + 1 if p.reverse else t - 1
                    opening = t == (length - 1 if p.reverse else 0)
                    here = (b - b0) * p.piece + t - t0
                    x = (t * p.batch + b) * f
                    if p.source == _TABLE:
                        base, at = p.table, p.index[t * p.batch + b] * width
                    elif p.source == _FEATURES:
                        base, at = projected, here * width
                    else:
                        base, at = p.bias, 0
                    if opening:
                        factors, f_at, terms = one, 0, 1
                        m, m_at, panel = p.start, (row * panels * 4 * lanes if p.start.size > panels * 4 * lanes else 0), 4 * lanes
                    else:
                        factors, f_at, terms = alpha, (before * p.rows + row) * k, k
                        m, m_at, panel = p.recurrent, 0, k * 4 * lanes
                    # The gates again. They do not wait for δα, so a loop of their own keeps the processor busy.
                    if p.lstm:
                        for v in range(panels):
                            gi, gf, gg, go = _lstm_gates(p, v, base, at, x, factors, f_at, m, m_at + v * panel, terms)
                            new = load_some(memory, (t * p.rows + row) * d + v * lanes, d - v * lanes)
                            if p.peephole.size > 0:
                                if opening:
                                    old = load(p.first, (row * full if p.first.size > full else 0) + v * lanes)
                                else:
                                    old = load_some(memory, (before * p.rows + row) * d + v * lanes, d - v * lanes)
                                gi = fma(load(p.peephole, v * lanes), old, gi)
                                gf = fma(load(p.peephole, full + v * lanes), old, gf)
                                go = fma(load(p.peephole, 2 * full + v * lanes), new, go)
                            g = here * width + v * slots * lanes
                            store(delta, g, sigmoid(gi))
                            store(delta, g + lanes, sigmoid(gf))
                            store(delta, g + 2 * lanes, tanh(gg))
                            store(delta, g + 3 * lanes, sigmoid(go))
                            store(us, here * full + v * lanes, tanh(new))
                    else:
                        for v in range(panels):
                            gn, gr, gz, gq, h = _gru_gates(p, v, base, at, x, factors, f_at, m, m_at + v * panel, terms)
                            gr = sigmoid(gr)
                            g = here * width + v * slots * lanes
                            store(delta, g, tanh(fma(gr, gq, gn)))
                            store(delta, g + lanes, gr)
                            store(delta, g + 2 * lanes, sigmoid(gz))
                            store(delta, g + 3 * lanes, gq)
                            store(delta, g + 4 * lanes, h)
                    soft_at = (t * p.rows + row) * k
                    out.temperature[part] += _back_transition(p, soft, soft_at, grad_alpha, out.carry, row * wide, logits, here * wide)
                    g_at = (t * p.rows + row) * d if p.every else row * d
                    reads = p.every or (p.final and t == (0 if p.reverse else length - 1))
                    sums[:] = 0.0
                    for v in range(panels):
                        left = d - v * lanes
                        du = load_some(grad_output, g_at + v * lanes, left) if reads else zeros(one)
                        for j in range(k):
                            du = fma(spread_at(logits, here * wide + j), load(p.states, (v * k + j) * lanes), du)
                        g = here * width + v * slots * lanes
                        if p.lstm:
                            gi, gf, gg, go = load(delta, g), load(delta, g + lanes), load(delta, g + 2 * lanes), load(delta, g + 3 * lanes)
                            tc = load(us, here * full + v * lanes)
                            if opening:
                                old = load(p.first, (row * full if p.first.size > full else 0) + v * lanes)
                            else:
                                old = load_some(memory, (before * p.rows + row) * d + v * lanes, left)
                            u = go * tc
                            store(us, here * full + v * lanes, u)
                            do = du * (tc - u) * go
                            dc = fma(du, go - u * tc, load(out.memory, row * full + v * lanes))
                            if p.peephole.size > 0:
                                dc = fma(do, load(p.peephole, 2 * full + v * lanes), dc)
                            ig = gi * gg
                            di, df = dc * (ig - ig * gi), dc * old * (gf - gf * gf)
                            dg, dc = dc * (gi - ig * gg), dc * gf
                            if p.peephole.size > 0:
                                new = load_some(memory, (t * p.rows + row) * d + v * lanes, left)
                                dc = fma(di, load(p.peephole, v * lanes), dc)
                                dc = fma(df, load(p.peephole, full + v * lanes), dc)
                                q = part * 3 * full + v * lanes
                                store(out.peephole, q, fma(di, old, load(out.peephole, q)))
                                store(out.peephole, q + full, fma(df, old, load(out.peephole, q + full)))
                                store(out.peephole, q + 2 * full, fma(do, new, load(out.peephole, q + 2 * full)))
                            store(out.memory, row * full + v * lanes, dc)
                            store(delta, g, di)
                            store(delta, g + lanes, df)
                            store(delta, g + 2 * lanes, dg)
                            store(delta, g + 3 * lanes, do)
                            _back_state(p, v, sums, di, df, dg, do)
                        else:
                            gn, gr, gz = load(delta, g), load(delta, g + lanes), load(delta, g + 2 * lanes)
                            gq, h = load(delta, g + 3 * lanes), load(delta, g + 4 * lanes)
                            store(us, here * full + v * lanes, fma(gz, h - gn, gn))
                            dn = (du - du * gz) * (1.0 - gn * gn)
                            dr, dz = dn * gq * (gr - gr * gr), du * (h - gn) * (gz - gz * gz)
                            dq, dh = dn * gr, du * gz
                            store(delta, g, dn)
                            store(delta, g + lanes, dr)
                            store(delta, g + 2 * lanes, dz)
                            store(delta, g + 3 * lanes, dq)
                            store(delta, g + 4 * lanes, dh)
                            _back_state(p, v, sums, dr, dz, dq, dh)
                    if opening:
                        for v in range(panels):
                            for j in range(4 * lanes):
                                out.start[(row * panels + v) * 4 * lanes + j] = delta[here * width + v * slots * lanes + shift + j]
                    else:
                        for j in range(k):
                            out.carry[row * wide + j] = total(load(sums, j * lanes))
            for b in range(b0, b1):
                low, high = t0, min(t0 + steps, p.lengths[b])
                if low >= high:
                    continue
                row, here = s * p.batch + b, (b - b0) * p.piece
                # α of the step before makes a step's gates, so the first step has none.
                early = max(low, 1) if not p.reverse else low
                late = high if not p.reverse else min(high, p.lengths[b] - 1)
                a_at = ((early + 1 if p.reverse else early - 1) * p.rows + row) * k
                for v in range(panels):
                    o = (part * panels + v) * k * 4 * lanes
                    product4(out.recurrent, (o, 4 * lanes), out.recurrent, (o, 4 * lanes), alpha, (a_at, 1, p.rows * k), delta,
                             ((here + early - t0) * width + v * slots * lanes + shift, width), late - early, k)  # fmt: skip
                    o = part * k * full + v * lanes
                    product1(out.states, (o, full), out.states, (o, full), logits, (here * wide, 1, wide), us,
                             (here * full + v * lanes, full), high - low, k)  # fmt: skip
                    if p.source != _TABLE:
                        _back_weights(p, v, out.input, (part * panels + v) * f * inner, p.x, ((low * p.batch + b) * f, 1, p.batch * f), delta, here * width, high - low, f)
                        _back_weights(p, v, out.bias, (part * panels + v) * inner, one, (0, 0, 0), delta, here * width, high - low, 1)
                if p.source == _TABLE:
                    span = span1 - span0
                    _copy(out.gates, (row * span + low - span0) * width, delta, here * width, (high - low) * width)
                elif out.x.size > 0:
                    _back_input(p, weights, out.x, low * p.batch + b, p.batch, delta, here * width, high - low)


# ------------------------------------------------------------------------------------------------------------------ tokens


@_kernel
def _project_tokens(p: Plan, low: int, high: int) -> None:
    """The table's rows low … high."""
    width = _sizes(p)[3]
    _project(p, p.table, low * width, low, 1, high - low)


@_kernel
def _gather_tokens(p: Plan, table: Array, gates: Array, order: Array, span0: int, span: int, low: int, high: int) -> None:
    """Add the gates' gradients of the steps order[low … high] to their tokens' rows."""
    width = _sizes(p)[3]
    for place in order[low:high]:
        t, row = place // p.rows, place % p.rows
        b = row % p.batch
        if span0 + t < p.lengths[b]:
            accumulate(table, p.index[(span0 + t) * p.batch + b] * width, gates, (row * span + t) * width, width)


@_kernel
def _back_tokens(p: Plan, weights: Array, table: Array, out: Array, low: int, high: int) -> None:
    """δx of the tokens low … high from the table's gradient."""
    width = _sizes(p)[3]
    _back_input(p, weights, out, low, 1, table, low * width, high - low)


@_kernel
def _back_table(p: Plan, table: Array, input_: Array, bias: Array, tokens: int, v: int) -> None:
    """Gradients of panel v of the input's weights and bias from the table's gradient."""
    lanes = _sizes(p)[0]
    inner = (4 if p.lstm else 3) * lanes
    one = aligned(lanes, p.x)
    one[:] = 1.0
    _back_weights(p, v, input_, v * p.features * inner, p.x, (0, 1, p.features), table, 0, tokens, p.features)
    _back_weights(p, v, bias, v * inner, one, (0, 0, 0), table, 0, tokens, 1)


@_kernel
def _add_parts(parts: Array, size: int) -> None:
    """Add all further parts to the first, in order."""
    for number in range(1, parts.size // size):
        accumulate(parts, 0, parts, number * size, size)


# -------------------------------------------------------------------------------------------------------------- the engine


def forward(problem: Problem, keep: bool) -> Results:
    """Run the recurrence; ``keep`` what backward will need."""
    plan, tasks = _plan(problem)
    T, rows, k, d = plan.time, plan.rows, plan.count, plan.hidden
    new = problem.x.new_empty if problem.lengths is None else problem.x.new_zeros
    results = Results(
        alpha=new((T, rows, k)),
        output=new(({"none": 0, "last": 1, "all": T}[problem.read], rows, d)),
        last=new((rows if plan.lstm else 0, d)),
        soft=new((T if keep and plan.hard else 0, rows, k)),
        memory=problem.x.new_empty((T if keep and plan.lstm else 0, rows, d)),
    )
    arrays = [_flat(tensor) for tensor in results]
    # With few sequences their samples are shared out too; each task then projects the input for itself.
    groups, samples = [group for task in tasks for group in task], rows // plan.batch
    share = -(-samples // max(1, 4 // len(groups)))
    work = [(*group, s, min(s + share, samples)) for group in groups for s in range(0, samples, share)]
    _run(lambda item: _forward_rows(plan, *arrays, *item), work, T * rows * d)
    return results


def backward(
    problem: Problem, results: Results, grad_alpha: Tensor, grad_output: Tensor, grad_last: Tensor, needs_x: bool
) -> Gradients:
    """Gradients of everything the recurrence was computed from."""
    plan, tasks = _plan(problem)
    T, rows, F, k, d = plan.time, plan.rows, plan.features, plan.count, plan.hidden
    new, lanes, gates = problem.x.new_zeros, lanes_of(problem.x.itemsize), 4 if plan.lstm else 3
    panels, parts = -(-d // lanes), len(tasks)
    tokens = len(problem.x) if problem.index is not None else 0
    width = (panels * (4 if plan.lstm else 5) + 1) * lanes
    span = max(1, min(T, _SPAN_BYTES // (rows * width * problem.x.itemsize))) if tokens else T

    x = torch.zeros_like(problem.x) if needs_x else new(0)
    table = new(tokens * width)  # with tokens: gradients of the gates, summed token by token
    memory = pad(grad_last, (0, panels * lanes - d)).contiguous()
    start = new(rows, panels, 4, lanes)
    recurrent, states = new(parts, panels, k, 4, lanes), new(parts, k, panels * lanes)
    input_ = new(1 if tokens else parts, panels, F, gates, lanes)
    bias = new(1 if tokens else parts, panels, 1, gates, lanes)
    peephole, temperature = new(parts, 3, panels * lanes), new(parts, dtype=torch.float64)
    waiting = problem.x.new_empty(rows * span * width if tokens else 0)
    carry = new(rows, -(-k // lanes) * lanes)
    sums = Sums(
        *(_flat(t) for t in (carry, memory, start, x, waiting, recurrent, input_, bias, states, peephole, temperature))
    )
    weights = _flat(_transposed(problem, lanes) if needs_x else new(0))
    soft = results.soft if plan.hard else results.alpha
    given = [_flat(t) for t in (results.alpha, soft, results.memory, grad_alpha.contiguous(), grad_output.contiguous())]

    for low in range(0, T, span) if plan.reverse else range((T - 1) // span * span, -1, -span):
        high = min(T, low + span)

        def carry_back(number: int, low: int = low, high: int = high) -> None:
            for b0, b1 in tasks[number]:
                _backward_rows(plan, weights, *given, sums, low, high, b0, b1, number)

        _run(carry_back, range(parts), (high - low) * rows * d)
        if problem.index is not None:
            order, cuts = _by_token(problem.index[low:high].repeat(1, rows // plan.batch).flatten(), tokens)

            def gather(cut: tuple[int, int], low: int = low, high: int = high, order: Array = order) -> None:
                _gather_tokens(plan, _flat(table), sums.gates, order, low, high - low, *cut)

            _run(gather, cuts, (high - low) * rows * d)
    if tokens:
        _run(lambda v: _back_table(plan, _flat(table), sums.input, sums.bias, tokens, v), range(panels), tokens * d)
    if tokens and needs_x:
        _run(lambda item: _back_tokens(plan, weights, _flat(table), sums.x, *item), _ranges(tokens, 96), tokens * d)

    for part in (recurrent, input_, bias, states, peephole):
        _add_parts(_flat(part), part[0].numel())
    of_start = start.transpose(1, 2).reshape(rows, 4, -1)[..., :d]
    of_start, of_first = (of_start, memory[:, :d]) if plan.lstm else (of_start[:, :3], of_start[:, 3])
    of_recurrent = _from_panels(recurrent[0], d)
    of_states = states[0, :, :d] if plan.lstm else states[0, :, :d] + of_recurrent[:, 3]
    in_order = (lambda t: t) if plan.lstm else (lambda t: t.roll(-1, dims=1))  # n, r, z back to r, z, n
    return Gradients(
        x=x if needs_x else None,
        input=in_order(_from_panels(input_[0], d)).permute(1, 2, 0).reshape(gates * d, F),
        input_bias=None if problem.input_bias is None else in_order(_from_panels(bias[0], d)).reshape(gates * d),
        recurrent=of_recurrent[:, :gates].reshape(k, gates * d),
        states=of_states.contiguous(),
        temperature=temperature.sum().to(problem.x.dtype),
        peephole=None if problem.peephole is None else peephole[0, :, :d].contiguous(),
        start=_sum_rows(of_start.reshape(rows, gates * d), len(problem.start)),
        first=_sum_rows(of_first.contiguous(), len(problem.first)),
    )


def _plan(problem: Problem) -> tuple[Plan, list[list[tuple[int, int]]]]:
    """Lay a problem out for the kernels; and the tasks, each a list of groups of sequences."""
    x, lstm, lanes = problem.x.detach(), problem.cell == "lstm", lanes_of(problem.x.itemsize)
    k, d = problem.states.shape
    F, gates, panels = x.shape[-1], 4 if lstm else 3, -(-d // lanes)
    time, batch = (x if problem.index is None else problem.index).shape[:2]
    width = (panels * (4 if lstm else 5) + 1) * lanes
    source = _TABLE if problem.index is not None else _DIRECT if F <= _FEW_FEATURES else _FEATURES

    size = min(8, max(1, batch // 4))
    groups = _ranges(batch, size)
    own = panels * lanes * x.itemsize * (5 * k + (F * gates if source != _TABLE else 0))
    tasks = min(len(groups), 32, max(4, _PART_BYTES // own))
    piece = min(time, max(24, min(96, _PIECE_BYTES // (size * width * x.itemsize) // 24 * 24)))

    bias = x.new_zeros(gates * d) if problem.input_bias is None else problem.input_bias
    start, first, recurrent = problem.start, problem.first, problem.recurrent.reshape(k, gates, d)
    if lstm:
        start = start.reshape(-1, 4, d)
    else:
        both = max(len(start), len(first))
        start = torch.cat([start.reshape(-1, 3, d).expand(both, 3, d), first[:, None].expand(both, 1, d)], dim=1)
        recurrent = torch.cat([recurrent, problem.states[:, None]], dim=1)
    noisy, none = problem.mode != "deterministic", torch.zeros(0, dtype=torch.int64)
    plan = Plan(
        x=_flat(x),
        index=_flat(none if problem.index is None else problem.index),
        table=_flat(x.new_empty(len(x) * width if source == _TABLE else 0)),
        input=_flat(_panels(_input_slots(problem).permute(2, 0, 1), lanes)),
        bias=_flat(_panels(pad(_slots(bias.reshape(1, gates, d), lstm), (0, 0, 0, 0 if lstm else 2)), lanes)),
        recurrent=_flat(_panels(recurrent, lanes)),
        start=_flat(_panels(start, lanes).transpose(0, 1)),
        first=_flat(pad(first, (0, panels * lanes - d))),
        states=_flat(_panels(problem.states[:, None], lanes)),
        peephole=_flat(x.new_zeros(0) if problem.peephole is None else pad(problem.peephole, (0, panels * lanes - d))),
        lengths=_flat(torch.full((batch,), time) if problem.lengths is None else problem.lengths),
        sequence=_flat(none if problem.sequence is None else problem.sequence),
        sample=_flat(none if problem.sample is None else problem.sample),
        time=time,
        batch=batch,
        rows=problem.rows,
        features=F,
        hidden=d,
        count=k,
        seed=0 if problem.seed is None else int(problem.seed),
        first_step=problem.first_step,
        layer=problem.layer,
        piece=piece,
        source=source,
        temperature=float(problem.temperature),
        lstm=lstm,
        noisy=noisy,
        hard=problem.mode == "straight_through",
        reverse=problem.reverse,
        every=problem.read == "all",
        final=problem.read == "last",
    )
    if source == _TABLE:
        _run(lambda item: _project_tokens(plan, *item), _ranges(len(x), 96), len(x) * d)
    return plan, [groups[low:high] for low, high in _ranges(len(groups), -(-len(groups) // tasks))]


def _slots(gates: Tensor, lstm: bool) -> Tensor:
    """Gates (n, G, …) in the order of the input's slots."""
    return gates if lstm else gates.roll(1, dims=1)


def _input_slots(problem: Problem) -> Tensor:
    """W_x as (input slots, d, features)."""
    weight = problem.input.detach().reshape(1, -1, problem.states.shape[1], problem.input.shape[1])
    return _slots(weight, problem.cell == "lstm")[0]


def _panels(rows: Tensor, lanes: int) -> Tensor:
    """Rows (n, slots, d) in panels (panels, n, slots, lanes)."""
    n, slots, d = rows.shape
    return pad(rows, (0, -d % lanes)).reshape(n, slots, -1, lanes).permute(2, 0, 1, 3)


def _from_panels(panels: Tensor, d: int) -> Tensor:
    return panels.permute(1, 2, 0, 3).reshape(*panels.shape[1:3], -1)[..., :d]


def _transposed(problem: Problem, lanes: int) -> Tensor:
    """W_x for the gradient of x: (panels of features, panels, input slots · lanes, features of a panel)."""
    slots = _input_slots(problem)
    gates, d, F = slots.shape
    size = (4 if F > 3 * lanes else 1) * lanes
    padded = pad(slots, (0, -F % size, 0, -d % lanes)).reshape(gates, -1, lanes, -(-F // size), size)
    return padded.permute(3, 1, 0, 2, 4).contiguous()


def _sum_rows(gradient: Tensor, rows: int) -> Tensor:
    """The gradient of what all rows share, if they do; added in order."""
    if rows > 1 or len(gradient) == 1:
        return gradient
    return gradient.cumsum(0)[-1:]


def _by_token(token: Tensor, tokens: int) -> tuple[Array, list[tuple[int, int]]]:
    """Steps in the order of their tokens, and where to cut that order so that no token lies on both sides."""
    ends = token.bincount(minlength=tokens).cumsum(0)
    near = torch.arange(1, 17) * len(token) // 16
    cuts = [0, *ends[torch.searchsorted(ends, near)].unique().tolist()]
    return _flat(token.argsort(stable=True)), list(zip(cuts, cuts[1:], strict=False))


def _flat(tensor: Tensor) -> Array:
    """The numbers of a tensor as a flat array, shared if the tensor is contiguous."""
    return tensor.detach().reshape(-1).numpy()


def _ranges(size: int, step: int) -> list[tuple[int, int]]:
    return [(low, min(low + step, size)) for low in range(0, size, step)]


Item = TypeVar("Item")


def _run(function: Callable[[Item], Any], items: Iterable[Item], size: int) -> None:
    """Do all items, on as many threads as PyTorch may use; which thread does what has no effect on the results."""
    threads = torch.get_num_threads()
    if threads == 1 or size < _SMALL:
        for item in items:
            function(item)
    else:
        for _ in _pool(os.getpid(), threads).map(function, items):
            pass


@lru_cache(maxsize=1)
def _pool(process: int, threads: int) -> ThreadPoolExecutor:
    """Threads of this process: a child made by fork has none of its parent's."""
    return ThreadPoolExecutor(threads, thread_name_prefix="sttau")
