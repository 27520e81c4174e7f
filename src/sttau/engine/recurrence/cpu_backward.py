"""Kernels of the CPU engine, compiled by Numba; ``cpu.py`` explains the layout and calls them.

Numbers are reached through bare pointers: a function is given the place where its part begins, and counts from there.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit

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

TABLE, FEATURES, DIRECT = 0, 1, 2  # where the input's part of the gates comes from: tokens, many features, few

# Without _nrt Numba counts references to arrays, with an atomic operation wherever one is named: twice as slow. So the
# kernels make no arrays; what they work in is given to them.
_kernel = njit(nogil=True, cache=True, error_model="numpy", _nrt=False)
_inline = njit(nogil=True, inline="always", error_model="numpy", _nrt=False)


class Plan(NamedTuple):
    """A problem as the kernels read it: flat arrays in panels, padded to whole Vectors, and plain numbers."""

    x: Array
    tokens: Array  # (time, batch) rows of ``projected``
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


class Group(NamedTuple):
    """Sequences b0 … b1, and samples s0 … s1 of each."""

    b0: int
    b1: int
    s0: int
    s1: int


class Made(NamedTuple):
    """What forward writes: the fields of ``factored.Results``, flat."""

    alpha: Array
    output: Array
    last: Array
    soft: Array
    memory: Array


class Given(NamedTuple):
    """What backward reads beside the plan."""

    weights: Array  # W_x for δx, see ``cpu._transposed``; or empty
    alpha: Array
    soft: Array
    memory: Array
    grad_alpha: Array
    grad_output: Array


class Sums(NamedTuple):
    """What backward writes: a row's own numbers, and from ``recurrent`` on a task's own sums, added up afterwards."""

    carry: Array  # (rows, k in whole Vectors): δα that comes from the step read next
    memory: Array  # (rows, panels, lanes): δc, likewise
    start: Array  # (rows, panels, 4, lanes)
    x: Array  # (time, batch, features) or empty
    gates: Array  # with tokens: (rows, steps of the span, panels, slots, lanes)
    recurrent: Array  # (panels, states, 4, lanes)
    input: Array  # (panels, features, input slots, lanes)
    bias: Array  # (panels, input slots, lanes)
    states: Array  # (states, panels, lanes)
    peephole: Array  # (3, panels, lanes)
    temperature: Array  # (1,)


class Space(NamedTuple):
    """Where backward works: pointers to what holds a piece of a group, and to what holds a step."""

    gates: Array  # (sequences, piece, panels, slots, lanes): the gates, then their gradients
    logits: Array  # (sequences, piece, k in whole Vectors): δ of the logits
    us: Array  # (sequences, piece, panels, lanes): tanh c of an LSTM, then u
    x: Array  # (piece, 4, lanes)
    one: Array  # the number 1


class Here(NamedTuple):
    """Pointers to what one row works on in one step of the way back."""

    gates: Array
    logits: Array
    us: Array
    old: Array  # c before the step, in whole Vectors
    new: Array  # c after it
    memory: Array  # δc
    sums: Array  # (states, lanes): δα of the step before, to be added up over the lanes


class Source(NamedTuple):
    """A row's gates at a step: base + Σ_j factor_j · row_j, and where features are few Σ_j x_j · weight_j."""

    base: Array
    x: Array
    factors: Array
    rows: Array
    panel: int  # from one panel of the rows to the next
    terms: int


# ---------------------------------------------------------------------------------------------- what both directions do


@_inline
def sizes(p: Plan) -> tuple[int, int, int, int, int]:
    """Lanes, panels, slots of a panel, numbers in a row of gates, and k in whole Vectors."""
    lanes = BYTES // p.x.itemsize
    panels = (p.hidden + lanes - 1) // lanes
    slots = 4 if p.lstm else 5
    # One Vector more than needed: rows at a distance of a power of two would fight for the same places in the cache.
    return lanes, panels, slots, (panels * slots + 1) * lanes, (p.k + lanes - 1) // lanes * lanes


@_inline
def _project(p: Plan, out: Array, row: int, step: int, rows: int) -> None:
    """The input's part of the gates for ``rows`` rows of x, ``step`` apart, from row ``row``."""
    lanes, panels, slots, width, _ = sizes(p)
    f, x, weights, bias = p.features, pointer(p.x, 0), pointer(p.input, 0), pointer(p.bias, 0)
    for v in range(panels):
        panel = v * slots * lanes
        place, begin, left = strides(panel, width), strides(panel), strides(row * f, step * f, 1)
        if p.lstm:
            product4(out, place, bias, begin, x, left, weights, strides(v * f * 4 * lanes, 0, 4 * lanes), f, rows)
        else:
            product3(out, place, bias, begin, x, left, weights, strides(v * f * 3 * lanes, 0, 3 * lanes), f, rows)


@_inline
def _project_piece(p: Plan, out: Array, apart: int, t0: int, steps: int, g: Group) -> None:
    """The input's part of the gates for a piece of a group, ``apart`` rows from one sequence to the next."""
    width = sizes(p)[3]
    for b in range(g.b0, g.b1):
        valid = min(steps, p.lengths[b] - t0)
        if valid > 0:
            _project(p, pointer(out, (b - g.b0) * apart * width), t0 * p.batch + b, p.batch, valid)


@_inline
def _kept(p: Plan, t0: int, b0: int) -> Any:
    """Where the kept rows of gates begin, from sequence b0 and step t0 on."""
    return pointer(p.projected, (b0 * p.kept + t0) * sizes(p)[3])


@_inline
def _ends(p: Plan, t: int, b: int) -> tuple[bool, bool]:
    """Whether t is the step a sequence's reading begins with, and the one it ends with."""
    last = p.lengths[b] - 1
    return (t == last, t == 0) if p.reverse else (t == 0, t == last)


@_inline
def _first(p: Plan, row: int) -> Any:
    """c_0 of a row."""
    lanes, panels, _, _, _ = sizes(p)
    return pointer(p.first, row * panels * lanes if p.first.size > panels * lanes else 0)


@_inline
def _source(p: Plan, projected: Array, t: int, row: int, opening: bool, before: Array, one: Array) -> Source:
    """A row's gates at step t: ``projected`` is its input if features are many, and ``before`` α_{t-1}."""
    lanes, panels, _, width, _ = sizes(p)
    size, place = 4 * lanes, t * p.batch + row % p.batch
    base, x = pointer(p.bias, 0), pointer(p.x, 0)
    if p.source == TABLE:
        base = pointer(p.projected, p.tokens[place] * width)
    elif p.source == FEATURES:
        base = projected
    else:
        x = pointer(p.x, place * p.features)
    if opening:
        at = row * panels * size if p.start.size > panels * size else 0
        return Source(base, x, one, pointer(p.start, at), size, 1)
    return Source(base, x, before, pointer(p.recurrent, 0), p.k * size, p.k)


@_inline
def _combine(factors: Array, rows: Array, terms: int, lanes: int, s0: Any, s1: Any, s2: Any, s3: Any) -> Any:
    """Add Σ_j factor_j · row_j to four Vectors; a row is four Vectors."""
    for j in range(terms):
        factor, q = spread_at(factors, j), j * 4 * lanes
        s0, s1 = fma(factor, load(rows, q), s0), fma(factor, load(rows, q + lanes), s1)
        s2, s3 = fma(factor, load(rows, q + 2 * lanes), s2), fma(factor, load(rows, q + 3 * lanes), s3)
    return s0, s1, s2, s3


@_inline
def _lstm_gates(p: Plan, g: Source, v: int) -> Any:
    """i, f, g, o of panel v before the nonlinearity."""
    lanes = BYTES // p.x.itemsize
    at, rows = v * 4 * lanes, pointer(g.rows, v * g.panel)
    i, f, n, o = load(g.base, at), load(g.base, at + lanes), load(g.base, at + 2 * lanes), load(g.base, at + 3 * lanes)
    i, f, n, o = _combine(g.factors, rows, g.terms, lanes, i, f, n, o)
    if p.source == DIRECT:
        i, f, n, o = _combine(g.x, pointer(p.input, p.features * at), p.features, lanes, i, f, n, o)
    return i, f, n, o


@_inline
def _gru_gates(p: Plan, g: Source, v: int) -> Any:
    """n, r, z, n' of panel v before the nonlinearity, and h."""
    lanes = BYTES // p.x.itemsize
    at, rows = v * 5 * lanes, pointer(g.rows, v * g.panel)
    n, r, z = load(g.base, at), load(g.base, at + lanes), load(g.base, at + 2 * lanes)
    r, z, old, h = _combine(g.factors, rows, g.terms, lanes, r, z, zeros(p.x), zeros(p.x))
    if p.source == DIRECT:
        for j in range(p.features):
            factor, q = spread_at(g.x, j), (v * p.features + j) * 3 * lanes
            n, r = fma(factor, load(p.input, q), n), fma(factor, load(p.input, q + lanes), r)
            z = fma(factor, load(p.input, q + 2 * lanes), z)
    return n, r, z, old, h


# -------------------------------------------------------------------------------------------------------------- forward


@_inline
def _logits(p: Plan, z: Array, u: Array) -> None:
    """z = S u, four states at a time."""
    lanes, panels, _, _, _ = sizes(p)
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


@_inline
def _draw(p: Plan, out: Array, row: int, t: int, steps: int, buffer: Array) -> None:
    """Gumbel noise (steps, k in whole Vectors) of one row from step t: see noise.py. A Vector's lanes are steps."""
    lanes, _, _, _, wide = sizes(p)
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
                    put(out, step * wide + state, get(buffer, (state & 3) * lanes + step - i))


@_inline
def _gumbel(like: Array, bits: Any) -> Any:
    uniform = (numbers(like, bits >> 9) + 0.5) * 2.0**-23
    return 0.0 - log(0.0 - log(uniform))


@_inline
def _transition(p: Plan, z: Array, noise: Array, alpha: Array) -> None:
    """alpha = softmax((z + noise)/τ), over the states and zeros up to a whole Vector; z is overwritten by z + noise."""
    lanes, _, _, _, wide = sizes(p)
    peak = load(z, 0) * 0.0 - 1e30
    for j in range(0, wide, lanes):
        value = load(z, j)
        if p.noisy:
            value = value + load(noise, j)
            store(z, j, value)
        peak = larger(peak, value)
    highest, inverse = largest(peak), 1.0 / p.temperature
    whole = zeros(z)
    for j in range(0, wide, lanes):
        below = (load(z, j) - highest) * inverse
        value = where_positive(-87.0 - below, 0.0, exp(below))  # NaN stays NaN
        store(alpha, j, value)
        whole = whole + value
    scale = 1.0 / total(whole)
    for j in range(0, wide, lanes):
        store(alpha, j, load(alpha, j) * scale)


@_inline
def _harden(p: Plan, z: Array, alpha: Array) -> None:
    """One-hot at the largest z."""
    best = 0
    for j in range(1, p.k):
        if get(z, j) > get(z, best):
            best = j
    for j in range(p.k):
        put(alpha, j, 0.0)
    put(alpha, best, 1.0)


@_inline
def _deliver(out: Array, to: int, values: Array, size: int) -> None:
    """Copy ``size`` numbers from where there is room for whole Vectors."""
    for i in range(0, size, BYTES // out.itemsize):
        store_some(out, to + i, load(values, i), size - i)


@_inline
def _lstm_step(p: Plan, g: Source, c: Array, u: Array) -> None:
    """One step of a row: its memory c and u."""
    lanes, panels, _, _, _ = sizes(p)
    full = panels * lanes
    for v in range(panels):
        i, f, n, o = _lstm_gates(p, g, v)
        old = load(c, v * lanes)
        if p.peephole.size > 0:
            i = fma(load(p.peephole, v * lanes), old, i)
            f = fma(load(p.peephole, full + v * lanes), old, f)
        new = fma(sigmoid(f), old, sigmoid(i) * tanh(n))
        if p.peephole.size > 0:
            o = fma(load(p.peephole, 2 * full + v * lanes), new, o)
        store(c, v * lanes, new)
        store(u, v * lanes, sigmoid(o) * tanh(new))


@_inline
def _gru_step(p: Plan, g: Source, u: Array) -> None:
    lanes, panels, _, _, _ = sizes(p)
    for v in range(panels):
        n, r, z, old, h = _gru_gates(p, g, v)
        n = tanh(fma(sigmoid(r), old, n))
        store(u, v * lanes, fma(sigmoid(z), h - n, n))


def forward_space(p: Plan, g: Group) -> int:
    """How many numbers ``forward_rows`` works in."""
    lanes, panels, _, width, wide = sizes.py_func(p)
    steps, rows = (g.b1 - g.b0) * p.piece, (g.b1 - g.b0) * (g.s1 - g.s0)
    gates = steps * width if p.source == FEATURES else 0
    return int(gates + steps * wide + 5 * lanes + (rows + 1) * (wide + panels * lanes))


@_kernel
def forward_rows(p: Plan, made: Made, work: Array, group: Group) -> None:
    """Run a group from its first step to its last."""
    lanes, panels, _, width, wide = sizes(p)
    b0, b1, s0, s1 = group
    d, k, full, mine = p.hidden, p.k, panels * lanes, b1 - b0
    rows = mine * (s1 - s0)
    gates, draws = (mine * p.piece * width if p.source == FEATURES else 0), mine * p.piece * wide
    noise, buffer = pointer(work, gates), pointer(work, gates + draws)
    one = pointer(buffer, 4 * lanes)
    z, u = pointer(one, lanes), pointer(one, lanes + wide)
    alphas, memories = pointer(u, full), pointer(u, full + rows * wide)
    fill(noise, draws, 0.0)
    fill(z, wide, -1e30)  # states beyond k are never taken
    fill(one, 1, 1.0)
    if p.lstm:
        for n in range(rows):
            copy(memories, n * full, _first(p, (s0 + n // mine) * p.batch + b0 + n % mine), 0, full)
    pieces = (p.time + p.piece - 1) // p.piece
    for number in range(pieces):
        t0 = (pieces - 1 - number if p.reverse else number) * p.piece
        steps = min(p.piece, p.time - t0)
        keep = s0 == 0 and t0 + steps <= p.kept  # of groups that share sequences one will do
        projected, apart = (_kept(p, t0, b0), p.kept) if keep else (pointer(work, 0), p.piece)
        if p.source == FEATURES:
            _project_piece(p, projected, apart, t0, steps, group)
        for s in range(s0, s1):
            if p.noisy:
                for b in range(b0, b1):
                    valid, own = min(steps, p.lengths[b] - t0), pointer(noise, (b - b0) * p.piece * wide)
                    _draw(p, own, s * p.batch + b, t0, valid, buffer)
            for i in range(steps):
                t = t0 + (steps - 1 - i if p.reverse else i)
                for b in range(b0, b1):
                    if t >= p.lengths[b]:
                        continue
                    opening, closing = _ends(p, t, b)
                    row, n, now = s * p.batch + b, (s - s0) * mine + b - b0, t * p.rows + s * p.batch + b
                    a, c = pointer(alphas, n * wide), pointer(memories, n * full)
                    its_input = pointer(projected, ((b - b0) * apart + t - t0) * width)
                    g = _source(p, its_input, t, row, opening, a, one)
                    if p.lstm:
                        _lstm_step(p, g, c, u)
                        if made.memory.size > 0:
                            _deliver(made.memory, now * d, c, d)
                        if closing:
                            _deliver(made.last, row * d, c, d)
                    else:
                        _gru_step(p, g, u)
                    if p.every:
                        _deliver(made.output, now * d, u, d)
                    elif p.final and closing:
                        _deliver(made.output, row * d, u, d)
                    _logits(p, z, u)
                    _transition(p, z, pointer(noise, ((b - b0) * p.piece + t - t0) * wide), a)
                    if p.hard:
                        if made.soft.size > 0:
                            _deliver(made.soft, now * k, a, k)
                        _harden(p, z, a)
                    _deliver(made.alpha, now * k, a, k)


# ------------------------------------------------------------------------------------------------------------- backward


@_inline
def _back_transition(p: Plan, alpha: Array, grad: Array, carry: Array, out: Array) -> float:
    """δ of the logits from δα = grad + carry, into ``out`` (zeros up to a whole Vector); returns δτ."""
    lanes, _, _, _, wide = sizes(p)
    inverse = 1.0 / p.temperature
    mean = zeros(alpha)
    for j in range(0, wide, lanes):
        value = load_some(alpha, j, p.k - j)
        delta = load_some(grad, j, p.k - j) + load(carry, j)
        store(out, j, delta)
        mean = fma(value, delta, mean)
    middle = total(mean)
    heat = zeros(alpha)
    for j in range(0, wide, lanes):
        value = load_some(alpha, j, p.k - j)
        delta = value * (load(out, j) - middle) * inverse
        store(out, j, delta)
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
def _lstm_again(p: Plan, g: Source, h: Here) -> None:
    """The gates after the nonlinearity, and tanh c in the place of u."""
    lanes, panels, _, _, _ = sizes(p)
    full = panels * lanes
    for v in range(panels):
        i, f, n, o = _lstm_gates(p, g, v)
        c = load_some(h.new, v * lanes, p.hidden - v * lanes)
        if p.peephole.size > 0:
            before = load(h.old, v * lanes)
            i = fma(load(p.peephole, v * lanes), before, i)
            f = fma(load(p.peephole, full + v * lanes), before, f)
            o = fma(load(p.peephole, 2 * full + v * lanes), c, o)
        q = v * 4 * lanes
        store(h.gates, q, sigmoid(i))
        store(h.gates, q + lanes, sigmoid(f))
        store(h.gates, q + 2 * lanes, tanh(n))
        store(h.gates, q + 3 * lanes, sigmoid(o))
        store(h.us, v * lanes, tanh(c))


@_inline
def _gru_again(p: Plan, g: Source, gates: Array) -> None:
    """n, r, z after the nonlinearity, the n that is reset, and h."""
    lanes, panels, _, _, _ = sizes(p)
    for v in range(panels):
        n, r, z, old, h = _gru_gates(p, g, v)
        r = sigmoid(r)
        q = v * 5 * lanes
        store(gates, q, tanh(fma(r, old, n)))
        store(gates, q + lanes, r)
        store(gates, q + 2 * lanes, sigmoid(z))
        store(gates, q + 3 * lanes, old)
        store(gates, q + 4 * lanes, h)


@_inline
def _lstm_back(p: Plan, v: int, du: Any, h: Here, peephole: Array) -> None:
    """Panel v: δgates in the place of the gates, u in the place of tanh c, and δc of the step before."""
    lanes, panels, _, _, _ = sizes(p)
    full, q, at = panels * lanes, v * lanes, v * 4 * lanes
    i, f, n = load(h.gates, at), load(h.gates, at + lanes), load(h.gates, at + 2 * lanes)
    o, tanh_c, before = load(h.gates, at + 3 * lanes), load(h.us, q), load(h.old, q)
    u, new_part = o * tanh_c, i * n
    store(h.us, q, u)
    do = du * (tanh_c - u) * o
    dc = fma(du, o - u * tanh_c, load(h.memory, q))
    if p.peephole.size > 0:
        dc = fma(do, load(p.peephole, 2 * full + q), dc)
    di, df = dc * (new_part - new_part * i), dc * before * (f - f * f)
    dn, dc = dc * (i - new_part * n), dc * f
    if p.peephole.size > 0:
        dc = fma(di, load(p.peephole, q), fma(df, load(p.peephole, full + q), dc))
        store(peephole, q, fma(di, before, load(peephole, q)))
        store(peephole, q + full, fma(df, before, load(peephole, q + full)))
        c = load_some(h.new, q, p.hidden - q)
        store(peephole, q + 2 * full, fma(do, c, load(peephole, q + 2 * full)))
    store(h.memory, q, dc)
    store(h.gates, at, di)
    store(h.gates, at + lanes, df)
    store(h.gates, at + 2 * lanes, dn)
    store(h.gates, at + 3 * lanes, do)
    _back_state(p, v, h.sums, di, df, dn, do)


@_inline
def _gru_back(p: Plan, v: int, du: Any, here: Here) -> None:
    """Panel v: δgates in the place of the gates, and u."""
    lanes = BYTES // p.x.itemsize
    gates, at = here.gates, v * 5 * lanes
    n, r, z = load(gates, at), load(gates, at + lanes), load(gates, at + 2 * lanes)
    old, h = load(gates, at + 3 * lanes), load(gates, at + 4 * lanes)
    store(here.us, v * lanes, fma(z, h - n, n))
    dh = du * z
    dn = (du - dh) * (1.0 - n * n)
    dr, dz, dold = dn * old * (r - r * r), du * (h - n) * (z - z * z), dn * r
    store(gates, at, dn)
    store(gates, at + lanes, dr)
    store(gates, at + 2 * lanes, dz)
    store(gates, at + 3 * lanes, dold)
    store(gates, at + 4 * lanes, dh)
    _back_state(p, v, here.sums, dr, dz, dold, dh)


@_inline
def _back_weights(p: Plan, out: Array, rows: int, x: Array, left: tuple[int, int, int], gates: Array, n: int) -> None:
    """out (rows, input slots of a panel) += Σ x δgates over n steps; ``gates`` begins at the panel."""
    lanes, _, _, width, _ = sizes(p)
    right = strides(0, 0, width)
    if p.lstm:
        place = strides(0, 4 * lanes)
        product4(out, place, out, place, x, left, gates, right, n, np.int64(rows))
    else:
        place = strides(0, 3 * lanes)
        product3(out, place, out, place, x, left, gates, right, n, np.int64(rows))


@_inline
def _back_input(p: Plan, weights: Array, out: Array, row: int, step: int, gates: Array, rows: int, sums: Array) -> None:
    """out (rows of x, ``step`` apart, from row ``row``) += Wᵀ δ of the gates."""
    lanes, panels, slots, width, _ = sizes(p)
    f, inner = p.features, (4 if p.lstm else 3) * lanes
    columns = 4 if f > 3 * lanes else 1
    size = columns * lanes
    w = pointer(weights, 0)
    for q in range((f + size - 1) // size):
        fill(sums, rows * size, 0.0)
        for v in range(panels):
            left, right = strides(v * slots * lanes, width, 1), strides((q * panels + v) * inner * size, 0, size)
            if columns == 4:
                product4(sums, strides(0, size), sums, strides(0, size), gates, left, w, right, inner, rows)
            else:
                product1(sums, strides(0, size), sums, strides(0, size), gates, left, w, right, inner, rows)
        for i in range(rows):
            for j in range(min(size, f - q * size)):
                out[(row + i * step) * f + q * size + j] += get(sums, i * size + j)


@_inline
def _back_products(p: Plan, given: Given, out: Sums, w: Space, place: int, row: int, t0: int, t1: int) -> None:
    """What a row's steps t0 … t1, from ``place`` on in the space, add to the gradients of U, S, W, the bias and x."""
    lanes, panels, slots, width, wide = sizes(p)
    k, f, full, inner = p.k, p.features, panels * lanes, (4 if p.lstm else 3) * lanes
    b, shift, steps = row % p.batch, (0 if p.lstm else lanes), t1 - t0
    # α of the step before makes a step's gates, so the step that is read first has none.
    low, high = (t0, min(t1, p.lengths[b] - 1)) if p.reverse else (max(t0, 1), t1)
    before = pointer(given.alpha, ((low + 1 if p.reverse else low - 1) * p.rows + row) * k)
    logits, us = pointer(w.logits, place * wide), pointer(w.us, place * full)
    x = pointer(p.x, (t0 * p.batch + b) * f)
    for v in range(panels):
        gates = pointer(w.gates, place * width + v * slots * lanes)
        recurrent, to = pointer(out.recurrent, v * k * 4 * lanes), strides(0, 4 * lanes)
        left, right = strides(0, 1, p.rows * k), strides((low - t0) * width + shift, 0, width)
        product4(recurrent, to, recurrent, to, before, left, gates, right, high - low, k)
        states, to = pointer(out.states, v * lanes), strides(0, full)
        product1(states, to, states, to, logits, strides(0, 1, wide), us, strides(v * lanes, 0, full), steps, k)
        if p.source != TABLE:
            _back_weights(p, pointer(out.input, v * f * inner), f, x, strides(0, 1, p.batch * f), gates, steps)
            _back_weights(p, pointer(out.bias, v * inner), 1, w.one, strides(0), gates, steps)
    if p.source != TABLE and out.x.size > 0:
        gates = pointer(w.gates, place * width)
        _back_input(p, given.weights, out.x, t0 * p.batch + b, p.batch, gates, steps, w.x)


def backward_space(p: Plan, g: Group) -> int:
    """How many numbers ``backward_rows`` works in."""
    lanes, panels, _, width, wide = sizes.py_func(p)
    step = (2 if g.s1 - g.s0 > 1 else 1) * width + wide + panels * lanes
    return int((g.b1 - g.b0) * p.piece * step + p.piece * 4 * lanes + (p.k + 1 + panels) * lanes)


@_kernel
def backward_rows(p: Plan, given: Given, out: Sums, work: Array, group: Group, span0: int, span1: int) -> None:
    """Carry gradients of a group back through the steps span0 … span1."""
    lanes, panels, slots, width, wide = sizes(p)
    b0, b1, s0, s1 = group
    d, k, full, area = p.hidden, p.k, panels * lanes, (b1 - b0) * p.piece
    shift = 0 if p.lstm else lanes
    # A gate's gradient takes the place of its projected input, unless further samples need that again.
    gates = pointer(work, area * width if s1 - s0 > 1 else 0)
    logits, us = pointer(gates, area * width), pointer(gates, area * (width + wide))
    space = pointer(us, area * full)
    sums = pointer(space, p.piece * 4 * lanes)
    one, old = pointer(sums, k * lanes), pointer(sums, (k + 1) * lanes)
    w = Space(gates, logits, us, space, one)
    fill(old, full, 0.0)
    fill(one, 1, 1.0)
    pieces = (span1 - span0 + p.piece - 1) // p.piece
    for number in range(pieces):
        t0 = span0 + (number if p.reverse else pieces - 1 - number) * p.piece
        steps = min(p.piece, span1 - t0)
        keep = t0 + steps <= p.kept
        projected, apart = (_kept(p, t0, b0), p.kept) if keep else (pointer(work, 0), p.piece)
        if p.source == FEATURES and not keep:
            _project_piece(p, projected, apart, t0, steps, group)
        for s in range(s0, s1):
            for i in range(steps):
                t = t0 + (i if p.reverse else steps - 1 - i)
                for b in range(b0, b1):
                    if t >= p.lengths[b]:
                        continue
                    opening, closing = _ends(p, t, b)
                    place, row, now = (b - b0) * p.piece + t - t0, s * p.batch + b, t * p.rows + s * p.batch + b
                    before = now + (p.rows if p.reverse else -p.rows)
                    h = Here(
                        gates=pointer(gates, place * width),
                        logits=pointer(logits, place * wide),
                        us=pointer(us, place * full),
                        old=old,
                        new=pointer(given.memory, now * d),
                        memory=pointer(out.memory, row * full),
                        sums=sums,
                    )
                    its_input = pointer(projected, ((b - b0) * apart + t - t0) * width)
                    g = _source(p, its_input, t, row, opening, pointer(given.alpha, before * k), one)
                    # The gates again. They do not wait for δα, so a loop of their own keeps the processor busy.
                    if p.lstm:
                        if opening:
                            copy(old, 0, _first(p, row), 0, full)
                        else:
                            for v in range(0, d, lanes):
                                store(old, v, load_some(given.memory, before * d + v, d - v))
                        _lstm_again(p, g, h)
                    else:
                        _gru_again(p, g, h.gates)
                    soft, grad = pointer(given.soft, now * k), pointer(given.grad_alpha, now * k)
                    out.temperature[0] += _back_transition(p, soft, grad, pointer(out.carry, row * wide), h.logits)
                    reads, g_at = p.every or (p.final and closing), (now if p.every else row) * d
                    fill(sums, k * lanes, 0.0)
                    for v in range(panels):
                        du = load_some(given.grad_output, g_at + v * lanes, d - v * lanes) if reads else zeros(one)
                        for j in range(k):
                            du = fma(spread_at(h.logits, j), load(p.states, (v * k + j) * lanes), du)
                        if p.lstm:
                            _lstm_back(p, v, du, h, pointer(out.peephole, 0))
                        else:
                            _gru_back(p, v, du, h)
                    if opening:
                        for v in range(panels):
                            to = (row * panels + v) * 4 * lanes
                            copy(pointer(out.start, 0), to, h.gates, v * slots * lanes + shift, 4 * lanes)
                    else:
                        for j in range(k):
                            out.carry[row * wide + j] = total(load(sums, j * lanes))
            for b in range(b0, b1):
                t1, row, place = min(t0 + steps, p.lengths[b]), s * p.batch + b, (b - b0) * p.piece
                if t0 < t1:
                    _back_products(p, given, out, w, place, row, t0, t1)
                    if p.source == TABLE:
                        to, size = (row * (span1 - span0) + t0 - span0) * width, (t1 - t0) * width
                        copy(out.gates, to, gates, place * width, size)


# --------------------------------------------------------------------------------------------------------------- tokens


@_kernel
def project_tokens(p: Plan, low: int, high: int) -> None:
    """The input's part of the gates of the tokens low … high."""
    _project(p, pointer(p.projected, low * sizes(p)[3]), low, 1, high - low)


@_kernel
def gather_tokens(
    p: Plan, table: Array, gates: Array, order: Array, span0: int, span: int, low: int, high: int
) -> None:
    """Add the gates' gradients of the steps order[low … high] to their tokens' rows of the table."""
    width = sizes(p)[3]
    for i in range(low, high):
        t, row = order[i] // p.rows, order[i] % p.rows
        b = row % p.batch
        if span0 + t < p.lengths[b]:
            accumulate(table, p.tokens[(span0 + t) * p.batch + b] * width, gates, (row * span + t) * width, width)


@_kernel
def back_tokens(p: Plan, weights: Array, table: Array, out: Array, work: Array, low: int, high: int) -> None:
    """δx of the tokens low … high from the table's gradient."""
    _back_input(p, weights, out, low, 1, pointer(table, low * sizes(p)[3]), high - low, pointer(work, 0))


@_kernel
def back_table(p: Plan, table: Array, out: Sums, one: Array, tokens: int, v: int) -> None:
    """Gradients of panel v of the input's weights and bias from the table's gradient."""
    lanes, _, slots, _, _ = sizes(p)
    inner, f, gates = (4 if p.lstm else 3) * lanes, p.features, pointer(table, v * slots * lanes)
    _back_weights(p, pointer(out.input, v * f * inner), f, pointer(p.x, 0), strides(0, 1, f), gates, tokens)
    _back_weights(p, pointer(out.bias, v * inner), 1, pointer(one, 0), strides(0), gates, tokens)


@_kernel
def add_parts(parts: Array, size: int) -> None:
    """Add all further parts to the first, in order."""
    for number in range(1, parts.size // size):
        accumulate(parts, 0, parts, number * size, size)
