"""The factored recurrence on a CPU, compiled by Numba: forward and backward.

A task owns a few sequences (with all their samples) and carries them through time alone; nothing is shared but the
weights. Time is cut in pieces small enough that everything a piece needs stays in the second-level cache:

    forward     project the piece's inputs ─▶ draw its noise ─▶ step by step: gates, u, logits, α
    backward    project the piece's inputs ─▶ step by step, from the end: δα, δu, δgates ─▶ products for dU, dS, dW

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
from itertools import pairwise
from typing import Any, NamedTuple, TypeVar

import numpy as np
import torch
from numba import njit
from torch import Tensor

from sttau.engine.cpu_math import (
    BYTES,
    Array,
    accumulate,
    copy,
    exp,
    fill,
    fma,
    get,
    high_product,
    lanes_of,
    larger,
    largest,
    load,
    load_some,
    log,
    numbers,
    pointer,
    product1,
    product3,
    product4,
    put,
    sigmoid,
    spread_at,
    store,
    store_some,
    strides,
    tanh,
    total,
    where_positive,
    words_from,
    zeros,
)
from sttau.engine.factored import Gradients, Needs, Problem, Results

_FEW_FEATURES = 8  # up to here x_t joins α_{t-1} as coefficients, and no projected input exists at all
_PIECE_BYTES = 1 << 19  # projected input of a piece: half a second-level cache
_KEPT_BYTES = 3 << 23  # of projected input kept for backward, a whole number of steps; later ones are projected again
# (beyond 32 MiB malloc takes new pages from the system each time, which costs what projecting again does)
_PART_BYTES = 1 << 26  # the tasks' own sums of weight gradients, together
_SPAN_BYTES = 1 << 25  # with tokens, gate gradients wait in memory until they are summed token by token
_TOKENS = 96  # tokens that one task projects
_SMALL = 1 << 16  # numbers of u below which threads cost more than they save

_TABLE, _FEATURES, _DIRECT = 0, 1, 2  # where the input's part of the gates comes from

# Without _nrt Numba counts references to arrays, with an atomic operation wherever one is named: twice as slow. So the
# kernels make no arrays; what they work in is given to them.
_kernel = njit(nogil=True, cache=True, error_model="numpy", _nrt=False)
_inline = njit(nogil=True, inline="always", error_model="numpy", _nrt=False)


class Plan(NamedTuple):
    """A problem as the kernels read it: flat arrays in panels, padded to whole Vectors, and plain numbers."""

    x: Array
    tokens: Array  # (time, batch) rows of the table
    projected: Array  # rows of gates: of every token, or (batch, kept steps) of features
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
    k: int
    seed: int
    first_step: int
    layer: int
    piece: int  # steps
    kept: int  # steps from the first whose projected input is kept
    source: int
    temperature: float
    lstm: bool
    noisy: bool
    hard: bool
    reverse: bool
    every: bool  # whether u is returned at every step
    final: bool  # whether u is returned at the last


# ---------------------------------------------------------------------------------------------- what both directions do


@_inline
def _sizes(p: Plan) -> tuple[int, int, int, int, int]:
    """Lanes, panels, slots of a panel, numbers in a row of gates, and k in whole Vectors."""
    lanes = BYTES // p.x.itemsize
    panels = (p.hidden + lanes - 1) // lanes
    slots = 4 if p.lstm else 5
    return lanes, panels, slots, (panels * slots + 1) * lanes, (p.k + lanes - 1) // lanes * lanes


@_inline
def _project(p: Plan, out: Array, at: int, row: int, step: int, rows: int) -> None:
    """The input's part of the gates for ``rows`` rows of x, ``step`` apart, from row ``row``."""
    lanes, panels, slots, width, _ = _sizes(p)
    f, x, weights, bias = p.features, pointer(p.x, 0), pointer(p.input, 0), pointer(p.bias, 0)
    for v in range(panels):
        panel = v * slots * lanes
        place, begin, left = strides(at + panel, width), strides(panel), strides(row * f, step * f, 1)
        if p.lstm:
            product4(out, place, bias, begin, x, left, weights, strides(v * f * 4 * lanes, 0, 4 * lanes), f, rows)
        else:
            product3(out, place, bias, begin, x, left, weights, strides(v * f * 3 * lanes, 0, 3 * lanes), f, rows)


@_inline
def _project_piece(p: Plan, out: Array, apart: int, t0: int, steps: int, b0: int, b1: int) -> None:
    """The input's part of the gates for a piece of some sequences, ``apart`` rows from one to the next."""
    for b in range(b0, b1):
        valid = min(steps, p.lengths[b] - t0)
        if valid > 0:
            _project(p, out, (b - b0) * apart * _sizes(p)[3], t0 * p.batch + b, p.batch, valid)


@_inline
def _kept(p: Plan, t0: int, b0: int) -> Array:
    """Where the kept rows of gates begin, from sequence b0 and step t0 on."""
    place: Array = pointer(p.projected, (b0 * p.kept + t0) * _sizes(p)[3])
    return place


@_inline
def _ends(p: Plan, t: int, b: int) -> tuple[bool, bool]:
    """Whether t is the step a sequence's reading begins with, and the one it ends with."""
    last = p.lengths[b] - 1
    return (t == last, t == 0) if p.reverse else (t == 0, t == last)


@_inline
def _first(p: Plan, row: int) -> int:
    """Where c_0 of a row begins."""
    lanes, panels, _, _, _ = _sizes(p)
    return row * panels * lanes if p.first.size > panels * lanes else 0


class Source(NamedTuple):
    """Where a row's gates at a step come from: base + Σ_j factor_j · row_j, and the features' rows if they are few."""

    base: Array
    base_at: int
    x_at: int
    factors: Array
    factors_at: int
    rows: Array
    rows_at: int
    panel: int  # from one panel of the rows to the next
    terms: int


@_inline
def _source(
    p: Plan,
    projected: Array,
    place: int,
    t: int,
    b: int,
    row: int,
    first: bool,
    alpha: Array,
    before: int,
    one: Array,
) -> Source:
    """The gates of step t: ``projected`` has its input in row ``place``, and ``alpha`` α_{t-1} from ``before`` on."""
    lanes, panels, _, width, _ = _sizes(p)
    size, x_at = 4 * lanes, (t * p.batch + b) * p.features
    if p.source == _TABLE:
        base, base_at = pointer(p.projected, 0), p.tokens[t * p.batch + b] * width
    elif p.source == _FEATURES:
        base, base_at = projected, place * width
    else:
        base, base_at = pointer(p.bias, 0), 0
    if first:
        at = row * panels * size if p.start.size > panels * size else 0
        return Source(base, base_at, x_at, one, 0, pointer(p.start, at), 0, size, 1)
    return Source(base, base_at, x_at, alpha, before, pointer(p.recurrent, 0), 0, p.k * size, p.k)


@_inline
def _lstm_gates(p: Plan, g: Source, v: int) -> Any:
    """i, f, g, o of panel v before the nonlinearity."""
    lanes = BYTES // p.x.itemsize
    at, m = g.base_at + v * 4 * lanes, g.rows_at + v * g.panel
    s0, s1 = load(g.base, at), load(g.base, at + lanes)
    s2, s3 = load(g.base, at + 2 * lanes), load(g.base, at + 3 * lanes)
    for j in range(g.terms):
        factor, q = spread_at(g.factors, g.factors_at + j), m + j * 4 * lanes
        s0, s1 = fma(factor, load(g.rows, q), s0), fma(factor, load(g.rows, q + lanes), s1)
        s2, s3 = fma(factor, load(g.rows, q + 2 * lanes), s2), fma(factor, load(g.rows, q + 3 * lanes), s3)
    if p.source == _DIRECT:
        for j in range(p.features):
            factor, q = spread_at(p.x, g.x_at + j), (v * p.features + j) * 4 * lanes
            s0, s1 = fma(factor, load(p.input, q), s0), fma(factor, load(p.input, q + lanes), s1)
            s2, s3 = fma(factor, load(p.input, q + 2 * lanes), s2), fma(factor, load(p.input, q + 3 * lanes), s3)
    return s0, s1, s2, s3


@_inline
def _gru_gates(p: Plan, g: Source, v: int) -> Any:
    """n, r, z, n' of panel v before the nonlinearity, and h."""
    lanes = BYTES // p.x.itemsize
    at, m = g.base_at + v * 5 * lanes, g.rows_at + v * g.panel
    n, r, z = load(g.base, at), load(g.base, at + lanes), load(g.base, at + 2 * lanes)
    old, h = zeros(p.x), zeros(p.x)
    for j in range(g.terms):
        factor, q = spread_at(g.factors, g.factors_at + j), m + j * 4 * lanes
        r, z = fma(factor, load(g.rows, q), r), fma(factor, load(g.rows, q + lanes), z)
        old, h = fma(factor, load(g.rows, q + 2 * lanes), old), fma(factor, load(g.rows, q + 3 * lanes), h)
    if p.source == _DIRECT:
        for j in range(p.features):
            factor, q = spread_at(p.x, g.x_at + j), (v * p.features + j) * 3 * lanes
            n, r = fma(factor, load(p.input, q), n), fma(factor, load(p.input, q + lanes), r)
            z = fma(factor, load(p.input, q + 2 * lanes), z)
    return n, r, z, old, h


@_inline
def _logits(p: Plan, z: Array, u: Array) -> None:
    """z = S u, four states at a time."""
    lanes, panels, _, _, _ = _sizes(p)
    j = 0
    while p.k - j >= 4:
        s0 = s1 = s2 = s3 = zeros(u)
        for v in range(panels):
            value, q = load(u, v * lanes), (v * p.k + j) * lanes
            s0, s1 = fma(value, load(p.states, q), s0), fma(value, load(p.states, q + lanes), s1)
            s2, s3 = fma(value, load(p.states, q + 2 * lanes), s2), fma(value, load(p.states, q + 3 * lanes), s3)
        put(z, j, total(s0))
        put(z, j + 1, total(s1))
        put(z, j + 2, total(s2))
        put(z, j + 3, total(s3))
        j += 4
    while j < p.k:
        s0 = zeros(u)
        for v in range(panels):
            s0 = fma(load(u, v * lanes), load(p.states, (v * p.k + j) * lanes), s0)
        put(z, j, total(s0))
        j += 1


# -------------------------------------------------------------------------------------------------------------- forward


@_inline
def _draw(p: Plan, out: Array, at: int, row: int, t: int, steps: int, buffer: Array) -> None:
    """Gumbel noise (steps, k in whole Vectors) of one row from step t: see noise.py. A Vector's lanes are steps."""
    lanes, _, _, _, wide = _sizes(p)
    for block in range((p.k + 3) // 4):
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
            for state in range(4 * block, min(4 * block + 4, p.k)):
                for step in range(i, min(i + lanes, steps)):
                    put(out, at + step * wide + state, get(buffer, (state & 3) * lanes + step - i))


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
        value = where_positive(-87.0 - below, 0.0, exp(below))  # NaN stays NaN
        store(alpha, at + j, value)
        whole = whole + value
    scale = 1.0 / total(whole)
    for j in range(0, wide, lanes):
        store(alpha, at + j, load(alpha, at + j) * scale)


@_inline
def _harden(p: Plan, z: Array, alpha: Array, at: int) -> None:
    """One-hot at the largest z."""
    best = 0
    for j in range(1, p.k):
        if get(z, j) > get(z, best):
            best = j
    for j in range(p.k):
        put(alpha, at + j, 0.0)
    put(alpha, at + best, 1.0)


@_inline
def _fetch(out: Array, values: Array, start: int, size: int) -> None:
    """Copy ``size`` numbers to where there is room for whole Vectors."""
    for i in range(0, size, BYTES // values.itemsize):
        store(out, i, load_some(values, start + i, size - i))


@_inline
def _deliver(out: Array, to: int, values: Array, start: int, size: int) -> None:
    """Copy ``size`` numbers from where there is room for whole Vectors."""
    for i in range(0, size, BYTES // out.itemsize):
        store_some(out, to + i, load(values, start + i), size - i)


@_inline
def _lstm_step(p: Plan, g: Source, c: Array, at: int, u: Array) -> None:
    """One step of a row: its memory c and u."""
    lanes, panels, _, _, _ = _sizes(p)
    full = panels * lanes
    for v in range(panels):
        i, f, n, o = _lstm_gates(p, g, v)
        old = load(c, at + v * lanes)
        if p.peephole.size > 0:
            i = fma(load(p.peephole, v * lanes), old, i)
            f = fma(load(p.peephole, full + v * lanes), old, f)
        new = fma(sigmoid(f), old, sigmoid(i) * tanh(n))
        if p.peephole.size > 0:
            o = fma(load(p.peephole, 2 * full + v * lanes), new, o)
        store(c, at + v * lanes, new)
        store(u, v * lanes, sigmoid(o) * tanh(new))


@_inline
def _gru_step(p: Plan, g: Source, u: Array) -> None:
    lanes, panels, _, _, _ = _sizes(p)
    for v in range(panels):
        n, r, z, old, h = _gru_gates(p, g, v)
        n = tanh(fma(sigmoid(r), old, n))
        store(u, v * lanes, fma(sigmoid(z), h - n, n))


@_kernel
def _forward_rows(
    p: Plan, alpha: Array, output: Array, last: Array, soft: Array, memory: Array, work: Array, b0: int, b1: int,
    s0: int, s1: int
) -> None:  # fmt: skip
    """Run samples s0 … s1 of sequences b0 … b1 from their first step to their last."""
    lanes, panels, _, width, wide = _sizes(p)
    d, k, full, mine = p.hidden, p.k, panels * lanes, b1 - b0
    rows = mine * (s1 - s0)
    gates, draws = (mine * p.piece * width if p.source == _FEATURES else 0), mine * p.piece * wide
    noise, buffer = pointer(work, gates), pointer(work, gates + draws)
    one = pointer(buffer, 4 * lanes)
    z, u = pointer(one, lanes), pointer(one, lanes + wide)
    a, c = pointer(u, full), pointer(u, full + rows * wide)
    fill(noise, draws, 0.0)
    fill(z, wide, -1e30)  # states beyond k are never taken
    fill(one, 1, 1.0)
    if p.lstm:
        for n in range(rows):
            row = (s0 + n // mine) * p.batch + b0 + n % mine
            copy(c, n * full, p.first, _first(p, row), full)
    pieces = (p.time + p.piece - 1) // p.piece
    for number in range(pieces):
        t0 = (pieces - 1 - number if p.reverse else number) * p.piece
        steps = min(p.piece, p.time - t0)
        keep = s0 == 0 and t0 + steps <= p.kept  # of tasks that share sequences one will do
        projected, apart = (_kept(p, t0, b0), p.kept) if keep else (pointer(work, 0), p.piece)
        if p.source == _FEATURES:
            _project_piece(p, projected, apart, t0, steps, b0, b1)
        for s in range(s0, s1):
            if p.noisy:
                for b in range(b0, b1):
                    valid, at = min(steps, p.lengths[b] - t0), (b - b0) * p.piece * wide
                    _draw(p, noise, at, s * p.batch + b, t0, valid, buffer)
            for i in range(steps):
                t = t0 + (steps - 1 - i if p.reverse else i)
                for b in range(b0, b1):
                    if t >= p.lengths[b]:
                        continue
                    opening, closing = _ends(p, t, b)
                    place, row, n = (b - b0) * p.piece + t - t0, s * p.batch + b, (s - s0) * mine + b - b0
                    g = _source(p, projected, (b - b0) * apart + t - t0, t, b, row, opening, a, n * wide, one)
                    if p.lstm:
                        _lstm_step(p, g, c, n * full, u)
                        if memory.size > 0:
                            _deliver(memory, (t * p.rows + row) * d, c, n * full, d)
                        if closing:
                            _deliver(last, row * d, c, n * full, d)
                    else:
                        _gru_step(p, g, u)
                    if p.every:
                        _deliver(output, (t * p.rows + row) * d, u, 0, d)
                    elif p.final and closing:
                        _deliver(output, row * d, u, 0, d)
                    _logits(p, z, u)
                    _transition(p, z, noise, place * wide, a, n * wide)
                    if p.hard:
                        if soft.size > 0:
                            _deliver(soft, (t * p.rows + row) * k, a, n * wide, k)
                        _harden(p, z, a, n * wide)
                    _deliver(alpha, (t * p.rows + row) * k, a, n * wide, k)


# ------------------------------------------------------------------------------------------------------------- backward


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
        left = p.k - j
        value = load_some(a, at + j, left)
        delta = load_some(grad, at + j, left) + load(carry, c_at + j)
        store(out, o_at + j, delta)
        mean = fma(value, delta, mean)
    middle = total(mean)
    heat = zeros(a)
    for j in range(0, wide, lanes):
        value = load_some(a, at + j, p.k - j)
        delta = value * (load(out, o_at + j) - middle) * inverse
        store(out, o_at + j, delta)
        heat = fma(delta, where_positive(value, log(larger(value, 1e-37)), 0.0), heat)
    return float(-total(heat))


@_inline
def _back_state(p: Plan, v: int, sums: Array, d0: Any, d1: Any, d2: Any, d3: Any) -> None:
    """Add panel v of ⟨U_j, δ of the gates⟩, lane by lane, to the sums of all states j."""
    lanes = BYTES // p.x.itemsize
    for j in range(p.k):
        q = (v * p.k + j) * 4 * lanes
        s = fma(d0, load(p.recurrent, q), load(sums, j * lanes))
        s = fma(d1, load(p.recurrent, q + lanes), s)
        s = fma(d2, load(p.recurrent, q + 2 * lanes), s)
        store(sums, j * lanes, fma(d3, load(p.recurrent, q + 3 * lanes), s))


@_inline
def _back_input(
    p: Plan, weights: Array, out: Array, row: int, step: int, gates: Array, at: int, rows: int, sums: Array
) -> None:
    """out (rows of x, ``step`` apart, from row ``row``) = Wᵀ δ of the gates."""
    lanes, panels, slots, width, _ = _sizes(p)
    f, inner = p.features, (4 if p.lstm else 3) * lanes
    columns = 4 if f > 3 * lanes else 1
    size = columns * lanes
    w = pointer(weights, 0)
    for q in range((f + size - 1) // size):
        fill(sums, rows * size, 0.0)
        for v in range(panels):
            left, right = strides(at + v * slots * lanes, width, 1), strides((q * panels + v) * inner * size, 0, size)
            if columns == 4:
                product4(sums, strides(0, size), sums, strides(0, size), gates, left, w, right, inner, rows)
            else:
                product1(sums, strides(0, size), sums, strides(0, size), gates, left, w, right, inner, rows)
        for i in range(rows):
            for j in range(min(size, f - q * size)):
                out[(row + i * step) * f + q * size + j] += get(sums, i * size + j)


@_inline
def _back_weights(
    p: Plan, v: int, out: Array, at: int, x: Array, left: tuple[int, int, int], gates: Array, gates_at: int, depth: int,
    rows: int
) -> None:  # fmt: skip
    """out (rows, input slots of panel v) += Σ x δgates, over ``depth`` steps."""
    lanes, _, slots, width, _ = _sizes(p)
    right = strides(gates_at + v * slots * lanes, 0, width)
    if p.lstm:
        place = strides(at, 4 * lanes)
        product4(out, place, out, place, x, left, gates, right, depth, np.int64(rows))
    else:
        place = strides(at, 3 * lanes)
        product3(out, place, out, place, x, left, gates, right, depth, np.int64(rows))


@_inline
def _lstm_again(
    p: Plan, g: Source, old: Array, new: Array, now: int, gates: Array, at: int, us: Array, u_at: int
) -> None:
    """The gates after the nonlinearity into ``gates``, tanh c into ``us``."""
    lanes, panels, _, _, _ = _sizes(p)
    full = panels * lanes
    for v in range(panels):
        i, f, n, o = _lstm_gates(p, g, v)
        c = load_some(new, now + v * lanes, p.hidden - v * lanes)
        if p.peephole.size > 0:
            before = load(old, v * lanes)
            i = fma(load(p.peephole, v * lanes), before, i)
            f = fma(load(p.peephole, full + v * lanes), before, f)
            o = fma(load(p.peephole, 2 * full + v * lanes), c, o)
        q = at + v * 4 * lanes
        store(gates, q, sigmoid(i))
        store(gates, q + lanes, sigmoid(f))
        store(gates, q + 2 * lanes, tanh(n))
        store(gates, q + 3 * lanes, sigmoid(o))
        store(us, u_at + v * lanes, tanh(c))


@_inline
def _gru_again(p: Plan, g: Source, gates: Array, at: int) -> None:
    """n, r, z after the nonlinearity, the n that is reset, and h, into ``gates``."""
    lanes, panels, _, _, _ = _sizes(p)
    for v in range(panels):
        n, r, z, old, h = _gru_gates(p, g, v)
        r = sigmoid(r)
        q = at + v * 5 * lanes
        store(gates, q, tanh(fma(r, old, n)))
        store(gates, q + lanes, r)
        store(gates, q + 2 * lanes, sigmoid(z))
        store(gates, q + 3 * lanes, old)
        store(gates, q + 4 * lanes, h)


@_inline
def _lstm_back(
    p: Plan, v: int, du: Any, old: Array, new: Array, now: int, gates: Array, at: int, us: Array, u_at: int,
    memory: Array, m_at: int, peephole: Array, p_at: int, sums: Array
) -> None:  # fmt: skip
    """Panel v: δgates in the place of the gates, u in the place of tanh c, and δc of the step before."""
    lanes, panels, _, _, _ = _sizes(p)
    full = panels * lanes
    q, at = v * lanes, at + v * 4 * lanes
    i, f, n, o = load(gates, at), load(gates, at + lanes), load(gates, at + 2 * lanes), load(gates, at + 3 * lanes)
    tanh_c, before = load(us, u_at + q), load(old, q)
    u, new_part = o * tanh_c, i * n
    store(us, u_at + q, u)
    do = du * (tanh_c - u) * o
    dc = fma(du, o - u * tanh_c, load(memory, m_at + q))
    if p.peephole.size > 0:
        dc = fma(do, load(p.peephole, 2 * full + q), dc)
    di, df = dc * (new_part - new_part * i), dc * before * (f - f * f)
    dn, dc = dc * (i - new_part * n), dc * f
    if p.peephole.size > 0:
        dc = fma(di, load(p.peephole, q), fma(df, load(p.peephole, full + q), dc))
        r = p_at + q
        store(peephole, r, fma(di, before, load(peephole, r)))
        store(peephole, r + full, fma(df, before, load(peephole, r + full)))
        c = load_some(new, now + q, p.hidden - q)
        store(peephole, r + 2 * full, fma(do, c, load(peephole, r + 2 * full)))
    store(memory, m_at + q, dc)
    store(gates, at, di)
    store(gates, at + lanes, df)
    store(gates, at + 2 * lanes, dn)
    store(gates, at + 3 * lanes, do)
    _back_state(p, v, sums, di, df, dn, do)


@_inline
def _gru_back(p: Plan, v: int, du: Any, gates: Array, at: int, us: Array, u_at: int, sums: Array) -> None:
    """Panel v: δgates in the place of the gates, and u."""
    lanes = BYTES // p.x.itemsize
    at += v * 5 * lanes
    n, r, z = load(gates, at), load(gates, at + lanes), load(gates, at + 2 * lanes)
    old, h = load(gates, at + 3 * lanes), load(gates, at + 4 * lanes)
    store(us, u_at + v * lanes, fma(z, h - n, n))
    dh = du * z
    dn = (du - dh) * (1.0 - n * n)
    dr, dz, dold = dn * old * (r - r * r), du * (h - n) * (z - z * z), dn * r
    store(gates, at, dn)
    store(gates, at + lanes, dr)
    store(gates, at + 2 * lanes, dz)
    store(gates, at + 3 * lanes, dold)
    store(gates, at + 4 * lanes, dh)
    _back_state(p, v, sums, dr, dz, dold, dh)


@_inline
def _back_products(
    p: Plan, weights: Array, alpha: Array, out: Sums, gates: Array, logits: Array, us: Array, place: int, t0: int,
    t1: int, b: int, row: int, part: int, one: Array, space: Array
) -> None:  # fmt: skip
    """What a row's steps t0 … t1 add to the gradients of U, S, W, the bias and x."""
    lanes, panels, slots, width, wide = _sizes(p)
    k, f, full, inner = p.k, p.features, panels * lanes, (4 if p.lstm else 3) * lanes
    shift, at = (0 if p.lstm else lanes), place * width
    # α of the step before makes a step's gates, so the step that is read first has none.
    low, high = (t0, min(t1, p.lengths[b] - 1)) if p.reverse else (max(t0, 1), t1)
    before = ((low + 1 if p.reverse else low - 1) * p.rows + row) * k
    recurrent, states = pointer(out.recurrent, 0), pointer(out.states, 0)
    for v in range(panels):
        to, left = strides((part * panels + v) * k * 4 * lanes, 4 * lanes), strides(before, 1, p.rows * k)
        right = strides(at + (low - t0) * width + v * slots * lanes + shift, 0, width)
        product4(recurrent, to, recurrent, to, pointer(alpha, 0), left, gates, right, high - low, k)
        to, left = strides(part * k * full + v * lanes, full), strides(place * wide, 1, wide)
        right = strides(place * full + v * lanes, 0, full)
        product1(states, to, states, to, logits, left, us, right, t1 - t0, k)
        if p.source != _TABLE:
            panel, left = (part * panels + v) * inner, strides((t0 * p.batch + b) * f, 1, p.batch * f)
            _back_weights(p, v, pointer(out.input, 0), panel * f, pointer(p.x, 0), left, gates, at, t1 - t0, f)
            _back_weights(p, v, pointer(out.bias, 0), panel, one, strides(0), gates, at, t1 - t0, 1)
    if p.source != _TABLE and out.x.size > 0:
        _back_input(p, weights, out.x, t0 * p.batch + b, p.batch, gates, at, t1 - t0, space)


@_kernel
def _backward_rows(
    p: Plan, weights: Array, alpha: Array, soft: Array, memory: Array, grad_alpha: Array, grad_output: Array, out: Sums,
    work: Array, span0: int, span1: int, b0: int, b1: int, part: int
) -> None:  # fmt: skip
    """Carry gradients of sequences b0 … b1 back through the steps span0 … span1."""
    lanes, panels, slots, width, wide = _sizes(p)
    d, k, full, mine, samples = p.hidden, p.k, panels * lanes, b1 - b0, p.rows // p.batch
    shift = 0 if p.lstm else lanes
    # A gate's gradient takes the place of its projected input, unless further samples need that again.
    size = mine * p.piece * width
    gates = pointer(work, size if samples > 1 else 0)
    logits, us = pointer(gates, size), pointer(gates, size + mine * p.piece * wide)
    space = pointer(us, mine * p.piece * full)
    sums = pointer(space, p.piece * 4 * lanes)
    one, old = pointer(sums, k * lanes), pointer(sums, (k + 1) * lanes)
    fill(old, full, 0.0)
    fill(one, 1, 1.0)
    pieces = (span1 - span0 + p.piece - 1) // p.piece
    for number in range(pieces):
        t0 = span0 + (number if p.reverse else pieces - 1 - number) * p.piece
        steps = min(p.piece, span1 - t0)
        keep = t0 + steps <= p.kept
        projected, apart = (_kept(p, t0, b0), p.kept) if keep else (pointer(work, 0), p.piece)
        if p.source == _FEATURES and not keep:
            _project_piece(p, projected, apart, t0, steps, b0, b1)
        for s in range(samples):
            for i in range(steps):
                t = t0 + (i if p.reverse else steps - 1 - i)
                for b in range(b0, b1):
                    if t >= p.lengths[b]:
                        continue
                    opening, closing = _ends(p, t, b)
                    place, row, now = (b - b0) * p.piece + t - t0, s * p.batch + b, t * p.rows + s * p.batch + b
                    before = now + (p.rows if p.reverse else -p.rows)
                    at, u_at = place * width, place * full
                    from_ = (b - b0) * apart + t - t0
                    g = _source(p, projected, from_, t, b, row, opening, pointer(alpha, 0), before * k, one)
                    # The gates again. They do not wait for δα, so a loop of their own keeps the processor busy.
                    if p.lstm:
                        if opening:
                            copy(old, 0, p.first, _first(p, row), full)
                        else:
                            _fetch(old, memory, before * d, d)
                        _lstm_again(p, g, old, memory, now * d, gates, at, us, u_at)
                    else:
                        _gru_again(p, g, gates, at)
                    out.temperature[part] += _back_transition(
                        p, soft, now * k, grad_alpha, out.carry, row * wide, logits, place * wide
                    )
                    reads, g_at = p.every or (p.final and closing), (now if p.every else row) * d
                    fill(sums, k * lanes, 0.0)
                    for v in range(panels):
                        du = load_some(grad_output, g_at + v * lanes, d - v * lanes) if reads else zeros(one)
                        for j in range(k):
                            du = fma(spread_at(logits, place * wide + j), load(p.states, (v * k + j) * lanes), du)
                        if p.lstm:
                            _lstm_back(
                                p, v, du, old, memory, now * d, gates, at, us, u_at, out.memory, row * full,
                                out.peephole, part * 3 * full, sums
                            )  # fmt: skip
                        else:
                            _gru_back(p, v, du, gates, at, us, u_at, sums)
                    if opening:
                        for v in range(panels):
                            for j in range(4 * lanes):
                                value = get(gates, at + v * slots * lanes + shift + j)
                                out.start[(row * panels + v) * 4 * lanes + j] = value
                    else:
                        for j in range(k):
                            out.carry[row * wide + j] = total(load(sums, j * lanes))
            for b in range(b0, b1):
                t1, row, place = min(t0 + steps, p.lengths[b]), s * p.batch + b, (b - b0) * p.piece
                if t0 < t1:
                    _back_products(p, weights, alpha, out, gates, logits, us, place, t0, t1, b, row, part, one, space)
                    if p.source == _TABLE:
                        to, size = (row * (span1 - span0) + t0 - span0) * width, (t1 - t0) * width
                        copy(out.gates, to, gates, place * width, size)


# --------------------------------------------------------------------------------------------------------------- tokens


@_kernel
def _project_tokens(p: Plan, low: int, high: int) -> None:
    """The table's rows low … high."""
    width = _sizes(p)[3]
    _project(p, pointer(p.projected, 0), low * width, low, 1, high - low)


@_kernel
def _gather_tokens(
    p: Plan, table: Array, gates: Array, order: Array, span0: int, span: int, low: int, high: int
) -> None:
    """Add the gates' gradients of the steps order[low … high] to their tokens' rows."""
    width = _sizes(p)[3]
    for i in range(low, high):
        t, row = order[i] // p.rows, order[i] % p.rows
        b = row % p.batch
        if span0 + t < p.lengths[b]:
            accumulate(table, p.tokens[(span0 + t) * p.batch + b] * width, gates, (row * span + t) * width, width)


@_kernel
def _back_tokens(p: Plan, weights: Array, table: Array, out: Array, work: Array, low: int, high: int) -> None:
    """δx of the tokens low … high from the table's gradient."""
    width = _sizes(p)[3]
    _back_input(p, weights, out, low, 1, pointer(table, 0), low * width, high - low, pointer(work, 0))


@_kernel
def _back_table(p: Plan, table: Array, input_: Array, bias: Array, one: Array, tokens: int, v: int) -> None:
    """Gradients of panel v of the input's weights and bias from the table's gradient."""
    lanes = _sizes(p)[0]
    inner = (4 if p.lstm else 3) * lanes
    f, rows = p.features, pointer(table, 0)
    _back_weights(p, v, pointer(input_, 0), v * f * inner, pointer(p.x, 0), strides(0, 1, f), rows, 0, tokens, f)
    _back_weights(p, v, pointer(bias, 0), v * inner, pointer(one, 0), strides(0), rows, 0, tokens, 1)


@_kernel
def _add_parts(parts: Array, size: int) -> None:
    """Add all further parts to the first, in order."""
    for number in range(1, parts.size // size):
        accumulate(parts, 0, parts, number * size, size)


# ----------------------------------------------------------------------------------------------------------- the engine


# Around the kernels only NumPy touches numbers: PyTorch would share even a small copy among its threads, and leave them
# spinning on the cores that the kernels are about to use.


def projected_shape(problem: Problem, keep: bool) -> tuple[int, ...]:
    """The rows of gates that forward keeps: (tokens, gates), (batch, steps, gates) of features, or (0,).

    Without a comparison, so that compilers and exporters may leave lengths open.
    """
    few = problem.index is None and problem.x.shape[-1] <= _FEW_FEATURES
    if not keep or few:
        return (0,)
    lanes, slots = lanes_of(problem.x.element_size()), 4 if problem.cell == "lstm" else 5
    width = (-(-problem.states.shape[1] // lanes) * slots + 1) * lanes
    if problem.index is not None:
        return (len(problem.x), width)
    time, batch, _ = problem.x.shape
    return batch, torch.sym_min(time, _KEPT_BYTES // (batch * width * problem.x.element_size())), width


def forward(problem: Problem, keep: bool) -> Results:
    """Run the recurrence; ``keep`` what backward will need."""
    tokens = problem.index is not None
    projected = problem.states.new_empty(projected_shape(problem, keep or tokens))
    plan, tasks = _plan(problem, projected)
    if tokens:
        _run(lambda item: _project_tokens(plan, *item), _ranges(len(problem.x), _TOKENS), len(problem.x) * plan.hidden)
    T, rows, k, d = plan.time, plan.rows, plan.k, plan.hidden
    shapes = {
        "alpha": (T, rows, k),
        "output": ({"none": 0, "last": 1, "all": T}[problem.read], rows, d),
        "last": (rows if plan.lstm else 0, d),
        "soft": (T if keep and plan.hard else 0, rows, k),
        "memory": (T if keep and plan.lstm else 0, rows, d),
    }
    arrays = {name: _empty(plan.x, *shape) for name, shape in shapes.items()}
    if problem.lengths is not None:
        arrays["alpha"].fill(0)
        arrays["output"].fill(0)
    flat = [array.reshape(-1) for array in arrays.values()]
    # With few sequences their samples are shared out too; each task then projects the input for itself.
    groups, samples = [group for task in tasks for group in task], rows // plan.batch
    share = -(-samples // max(1, 4 // len(groups)))
    work = [(*group, s, min(s + share, samples)) for group in groups for s in range(0, samples, share)]
    _run(lambda item: _forward_rows(plan, *flat, _space(plan, *item), *item), work, T * rows * d)
    return Results(
        **{name: torch.from_numpy(array) for name, array in arrays.items()},
        projected=projected if keep else projected.new_empty(0),
    )


def backward(
    problem: Problem,
    results: Results,
    grad_alpha: Tensor | None,
    grad_output: Tensor | None,
    grad_last: Tensor | None,
    needs: Needs,
) -> Gradients:
    """Gradients of everything the recurrence was computed from."""
    plan, tasks = _plan(problem, results.projected)
    T, rows, F, k, d = plan.time, plan.rows, plan.features, plan.k, plan.hidden
    needs_x, zeros = needs.x, problem.states.new_zeros
    grad_alpha = zeros(T, rows, k) if grad_alpha is None else grad_alpha
    if grad_output is None:
        grad_output = zeros({"none": 0, "last": 1, "all": T}[problem.read], rows, d)
    grad_last = zeros(rows if plan.lstm else 0, d) if grad_last is None else grad_last
    lanes, panels, _, width, wide = _sizes.py_func(plan)
    gates, parts, tokens = 4 if plan.lstm else 3, len(tasks), len(problem.x) if problem.index is not None else 0
    span = max(1, min(T, _SPAN_BYTES // (rows * width * plan.x.itemsize))) if tokens else T

    def new(*shape: int) -> Array:
        return _filled(plan.x, 0, *shape)

    x = new(*problem.x.shape) if needs_x else new(0)
    table = new(tokens * width)  # with tokens: gradients of the gates, summed token by token
    memory = _padded(_array(grad_last), panels * lanes)
    start, carry, peephole = new(rows, panels, 4, lanes), new(rows, wide), new(parts, 3, panels * lanes)
    recurrent, states = new(parts, panels, k, 4, lanes), new(parts, k, panels * lanes)
    input_ = new(1 if tokens else parts, panels, F, gates, lanes)
    bias, temperature = new(1 if tokens else parts, panels, 1, gates, lanes), np.zeros(parts)
    waiting = _empty(plan.x, rows * span * width if tokens else 0)
    written = (carry, memory, start, x, waiting, recurrent, input_, bias, states, peephole, temperature)
    sums = Sums(*(array.reshape(-1) for array in written))
    soft = results.soft if plan.hard else results.alpha
    given = [_array(t).reshape(-1) for t in (results.alpha, soft, results.memory, grad_alpha, grad_output)]
    weights = _transposed(problem, lanes) if needs_x else new(0)

    for low in range(0, T, span) if plan.reverse else range((T - 1) // span * span, -1, -span):
        high = min(T, low + span)

        def carry_back(part: int, low: int = low, high: int = high) -> None:
            for b0, b1 in tasks[part]:
                _backward_rows(plan, weights, *given, sums, _back_space(plan, b1 - b0), low, high, b0, b1, part)

        _run(carry_back, range(parts), (high - low) * rows * d)
        if problem.index is not None:
            order, cuts = _by_token(np.tile(_array(problem.index[low:high]), rows // plan.batch).reshape(-1), tokens)

            def gather(cut: tuple[int, int], low: int = low, high: int = high, order: Array = order) -> None:
                _gather_tokens(plan, table, sums.gates, order, low, high - low, *cut)

            _run(gather, cuts, (high - low) * rows * d)
    if tokens:
        one = _filled(plan.x, 1, lanes)
        _run(lambda v: _back_table(plan, table, sums.input, sums.bias, one, tokens, v), range(panels), tokens * d)
        if needs_x:
            space = 4 * lanes * _TOKENS
            _run(
                lambda item: _back_tokens(plan, weights, table, sums.x, _empty(plan.x, space), *item),
                _ranges(tokens, _TOKENS),
                tokens * d,
            )
    for array in (recurrent, input_, bias, states, peephole):
        _add_parts(array.reshape(-1), array[0].size)

    of_recurrent = _from_panels(recurrent[0], d)
    of_start = start.swapaxes(1, 2).reshape(rows, 4, -1)[..., :d]
    of_first = memory[:, :d] if plan.lstm else of_start[:, 3]
    of_states = states[0, :, :d] if plan.lstm else states[0, :, :d] + of_recurrent[:, 3]
    roll = 0 if plan.lstm else -1  # n, r, z back to r, z, n
    of_input, of_bias = (np.roll(_from_panels(array[0], d), roll, axis=1) for array in (input_, bias))
    return Gradients(
        x=torch.from_numpy(x) if needs_x else None,
        input=_tensor(of_input.transpose(1, 2, 0).reshape(gates * d, F)),
        input_bias=None if problem.input_bias is None else _tensor(of_bias.reshape(-1)),
        recurrent=_tensor(of_recurrent[:, :gates].reshape(k, gates * d)),
        states=_tensor(of_states),
        temperature=torch.tensor(temperature.sum(), dtype=problem.x.dtype),
        peephole=None if problem.peephole is None else _tensor(peephole[0, :, :d]),
        start=_tensor(_shared(of_start[:, :gates].reshape(rows, -1), len(problem.start))),
        first=_tensor(_shared(of_first, len(problem.first))) if needs.first else None,
    )


def _plan(problem: Problem, projected: Tensor) -> tuple[Plan, list[list[tuple[int, int]]]]:
    """Lay a problem out for the kernels; and the tasks, each a list of groups of sequences."""
    x, states, lstm = _array(problem.x), _array(problem.states), problem.cell == "lstm"
    lanes, gates, slots = lanes_of(x.itemsize), 4 if lstm else 3, 4 if lstm else 5
    (k, d), F = states.shape, x.shape[-1]
    panels = -(-d // lanes)
    width = (panels * slots + 1) * lanes
    time, batch = (problem.x if problem.index is None else problem.index).shape[:2]
    source = _TABLE if problem.index is not None else _DIRECT if F <= _FEW_FEATURES else _FEATURES

    size = min(8, max(1, batch // 4))
    groups = _ranges(batch, size)
    own = panels * lanes * x.itemsize * (5 * k + (F * gates if source != _TABLE else 0))
    tasks = min(len(groups), 32, max(4, _PART_BYTES // own))
    piece = min(time, max(24, min(96, _PIECE_BYTES // (size * width * x.itemsize) // 24 * 24)))

    bias = np.zeros((1, slots, d), dtype=x.dtype)
    if problem.input_bias is not None:
        bias[:, :gates] = _slots(_array(problem.input_bias).reshape(1, gates, d), lstm)
    start, first = _array(problem.start).reshape(-1, gates, d), _array(problem.first)
    recurrent = _array(problem.recurrent).reshape(k, gates, d)
    if not lstm:
        both = max(len(start), len(first))
        opening = np.broadcast_to(start, (both, 3, d)), np.broadcast_to(first[:, None], (both, 1, d))
        start, recurrent = np.concatenate(opening, axis=1), np.concatenate((recurrent, states[:, None]), axis=1)
    plan = Plan(
        x=x.reshape(-1),
        tokens=_integers(problem.index),
        projected=_array(projected).reshape(-1),
        input=_panels(_input_slots(problem).transpose(2, 0, 1), lanes),
        bias=_panels(bias, lanes),
        recurrent=_panels(recurrent, lanes),
        start=np.concatenate([_panels(row[None], lanes) for row in start]),
        first=_padded(first, panels * lanes).reshape(-1),
        states=_panels(states[:, None], lanes),
        peephole=_empty(x, 0)
        if problem.peephole is None
        else _padded(_array(problem.peephole), panels * lanes).reshape(-1),
        lengths=np.full(batch, time) if problem.lengths is None else _integers(problem.lengths),
        sequence=_integers(problem.sequence),
        sample=_integers(problem.sample),
        time=time,
        batch=batch,
        rows=problem.rows,
        features=F,
        hidden=d,
        k=k,
        seed=0 if problem.seed is None else int(problem.seed),
        first_step=problem.first_step,
        layer=problem.layer,
        piece=piece,
        kept=projected.shape[1] if projected.dim() == 3 else 0,
        source=source,
        temperature=float(problem.temperature),
        lstm=lstm,
        noisy=problem.mode != "deterministic",
        hard=problem.mode == "straight_through",
        reverse=problem.reverse,
        every=problem.read == "all",
        final=problem.read == "last",
    )
    return plan, [groups[low:high] for low, high in _ranges(len(groups), -(-len(groups) // tasks))]


def _space(p: Plan, b0: int, b1: int, s0: int, s1: int) -> Array:
    """What ``_forward_rows`` works in."""
    lanes, panels, _, width, wide = _sizes.py_func(p)
    steps, rows = (b1 - b0) * p.piece, (b1 - b0) * (s1 - s0)
    gates = steps * width if p.source == _FEATURES else 0
    return _empty(p.x, gates + steps * wide + 5 * lanes + (rows + 1) * (wide + panels * lanes))


def _back_space(p: Plan, sequences: int) -> Array:
    """What ``_backward_rows`` works in."""
    lanes, panels, _, width, wide = _sizes.py_func(p)
    step = 2 * width + wide + panels * lanes
    return _empty(p.x, sequences * p.piece * step + p.piece * 4 * lanes + (p.k + 1 + panels) * lanes)


def _slots(gates: Array, lstm: bool) -> Array:
    """Gates (n, G, …) in the order of the input's slots."""
    return gates if lstm else np.roll(gates, 1, axis=1)


def _input_slots(problem: Problem) -> Array:
    """W_x as (input slots, d, features)."""
    weight = _array(problem.input).reshape(1, -1, problem.states.shape[1], problem.input.shape[1])
    (slots,) = _slots(weight, problem.cell == "lstm")
    return slots  # type: ignore[no-any-return]


def _panels(rows: Array, lanes: int) -> Array:
    """Rows (n, slots, d) in panels (panels, n, slots, lanes), flat."""
    n, slots, d = rows.shape
    panels = _empty(rows, -(-d // lanes), n, slots, lanes)
    whole = rows if d % lanes == 0 else _padded(rows, len(panels) * lanes)
    panels[:] = whole.reshape(n, slots, -1, lanes).transpose(2, 0, 1, 3)
    return panels.reshape(-1)


def _from_panels(panels: Array, d: int) -> Array:
    """Panels (panels, n, slots, lanes) as rows (n, slots, d)."""
    return panels.transpose(1, 2, 0, 3).reshape(*panels.shape[1:3], -1)[..., :d]


def _transposed(problem: Problem, lanes: int) -> Array:
    """W_x for the gradient of x: (panels of features, panels, input slots · lanes, features of a panel), flat."""
    slots = _input_slots(problem)
    gates, d, F = slots.shape
    size = (4 if 3 * lanes < F else 1) * lanes
    panels, columns = -(-d // lanes), -(-F // size)
    padded = _filled(slots, 0, gates, panels * lanes, columns * size)
    padded[:, :d, :F] = slots
    weights = _empty(slots, columns, panels, gates, lanes, size)
    weights[:] = padded.reshape(gates, panels, lanes, columns, size).transpose(3, 1, 0, 2, 4)
    return weights.reshape(-1)


def _shared(gradient: Array, rows: int) -> Array:
    """The gradient (rows, …) of what all rows share, if they do."""
    whole: Array = gradient if len(gradient) == rows else gradient.sum(axis=0, keepdims=True)
    return whole


def _by_token(token: Array, tokens: int) -> tuple[Array, list[tuple[int, int]]]:
    """Steps in the order of their tokens, and where to cut that order so that no token lies on both sides."""
    ends = np.bincount(token, minlength=tokens).cumsum()
    near = np.arange(1, 17) * len(token) // 16
    cuts = [0, *np.unique(ends[np.searchsorted(ends, near)]).tolist()]
    return np.argsort(token, kind="stable"), list(pairwise(cuts))


def _array(tensor: Tensor) -> Array:
    array: Array = tensor.detach().contiguous().numpy()
    return array


def _integers(tensor: Tensor | None) -> Array:
    return np.zeros(0, dtype=np.int64) if tensor is None else _array(tensor).reshape(-1)


def _tensor(array: Array) -> Tensor:
    return torch.from_numpy(np.ascontiguousarray(array))


def _empty(like: Array, *shape: int) -> Array:
    """Uninitialised memory. PyTorch's begins at a cache line, as fast loads want it."""
    return torch.empty(shape, dtype=torch.float32 if like.itemsize == 4 else torch.float64).numpy()


def _filled(like: Array, number: float, *shape: int) -> Array:
    array = _empty(like, *shape)
    array.fill(number)
    return array


def _padded(array: Array, size: int) -> Array:
    """The last dimension filled up with zeros."""
    padded = _filled(array, 0, *array.shape[:-1], size)
    padded[..., : array.shape[-1]] = array
    return padded


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
