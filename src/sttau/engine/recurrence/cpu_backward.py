"""Backward kernels of the CPU engine; ``cpu.py`` explains the layout and calls them."""

from __future__ import annotations

from typing import Any

import numpy as np

from sttau.engine.recurrence.cpu_common import (
    FEATURES,
    TABLE,
    BackwardInputs,
    Group,
    Plan,
    Source,
    StepPointers,
    Sums,
    Workspace,
    first_memory,
    gate_source,
    gru_gates,
    is_first_or_last,
    kept_gates,
    lstm_gates,
    project_piece,
    sizes,
)
from sttau.engine.simd import (
    BYTES,
    Array,
    accumulate,
    copy,
    device_function,
    fill,
    fma,
    get,
    kernel,
    larger,
    load,
    load_some,
    log,
    pointer,
    product1,
    product3,
    product4,
    sigmoid,
    spread_at,
    store,
    strides,
    tanh,
    total,
    where_positive,
    zeros,
)


@device_function
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
    grad_tau = zeros(alpha)
    for j in range(0, wide, lanes):
        value = load_some(alpha, j, p.k - j)
        delta = value * (load(out, j) - middle) * inverse
        store(out, j, delta)
        grad_tau = fma(delta, where_positive(value, log(larger(value, 1e-37)), 0.0), grad_tau)
    return float(-total(grad_tau))


@device_function
def _back_state(p: Plan, v: int, sums: Array, d0: Any, d1: Any, d2: Any, d3: Any) -> None:
    """Add panel v of ⟨U_j, δ of the gates⟩, lane by lane, to the sums of all states j."""
    lanes = BYTES // p.x.itemsize
    for j in range(p.k):
        q = (v * p.k + j) * 4 * lanes
        s = fma(d0, load(p.recurrent, q), load(sums, j * lanes))
        s = fma(d1, load(p.recurrent, q + lanes), s)
        s = fma(d2, load(p.recurrent, q + 2 * lanes), s)
        store(sums, j * lanes, fma(d3, load(p.recurrent, q + 3 * lanes), s))


@device_function
def _lstm_again(p: Plan, g: Source, h: StepPointers) -> None:
    """The gates after the nonlinearity, and tanh c, stored where u will be."""
    lanes, panels, _, _, _ = sizes(p)
    full = panels * lanes
    for v in range(panels):
        i, f, n, o = lstm_gates(p, g, v)
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


@device_function
def _gru_again(p: Plan, g: Source, gates: Array) -> None:
    """n, r, z after the nonlinearity, the n that is reset, and h."""
    lanes, panels, _, _, _ = sizes(p)
    for v in range(panels):
        n, r, z, old, h = gru_gates(p, g, v)
        r = sigmoid(r)
        q = v * 5 * lanes
        store(gates, q, tanh(fma(r, old, n)))
        store(gates, q + lanes, r)
        store(gates, q + 2 * lanes, sigmoid(z))
        store(gates, q + 3 * lanes, old)
        store(gates, q + 4 * lanes, h)


@device_function
def _lstm_back(p: Plan, v: int, du: Any, h: StepPointers, peephole: Array) -> None:
    """Panel v: δgates, which overwrite the gates, u, which overwrites tanh c, and δc of the previous step."""
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


@device_function
def _gru_back(p: Plan, v: int, du: Any, here: StepPointers) -> None:
    """Panel v: δgates, which overwrite the gates, and u."""
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


@device_function
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


@device_function
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


@device_function
def _back_products(
    p: Plan, given: BackwardInputs, out: Sums, w: Workspace, place: int, row: int, t0: int, t1: int
) -> None:
    """What a row's steps t0 … t1, from ``place`` on in the workspace, add to gradients of U, S, W, bias and x."""
    lanes, panels, slots, width, wide = sizes(p)
    k, f, full, inner = p.k, p.features, panels * lanes, (4 if p.lstm else 3) * lanes
    b, shift, steps = row % p.batch, (0 if p.lstm else lanes), t1 - t0
    # A step's gates depend on α of the previous step; the step that is read first has none.
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
    """Size of the workspace of ``backward_rows``."""
    lanes, panels, _, width, wide = sizes.py_func(p)
    step = (2 if g.s1 - g.s0 > 1 else 1) * width + wide + panels * lanes
    return int((g.b1 - g.b0) * p.piece * step + p.piece * 4 * lanes + (p.k + 1 + panels) * lanes)


@kernel
def backward_rows(p: Plan, given: BackwardInputs, out: Sums, work: Array, group: Group, span0: int, span1: int) -> None:
    """Propagate gradients of a group back through the steps span0 … span1."""
    lanes, panels, slots, width, wide = sizes(p)
    b0, b1, s0, s1 = group
    d, k, full, area = p.hidden, p.k, panels * lanes, (b1 - b0) * p.piece
    shift = 0 if p.lstm else lanes
    # A gate's gradient overwrites its projected input, unless further samples need that again.
    gates = pointer(work, area * width if s1 - s0 > 1 else 0)
    logits, us = pointer(gates, area * width), pointer(gates, area * (width + wide))
    space = pointer(us, area * full)
    sums = pointer(space, p.piece * 4 * lanes)
    one, old = pointer(sums, k * lanes), pointer(sums, (k + 1) * lanes)
    w = Workspace(gates, logits, us, space, one)
    fill(old, full, 0.0)
    fill(one, 1, 1.0)
    pieces = (span1 - span0 + p.piece - 1) // p.piece
    for number in range(pieces):
        t0 = span0 + (number if p.reverse else pieces - 1 - number) * p.piece
        steps = min(p.piece, span1 - t0)
        keep = t0 + steps <= p.kept
        projected, apart = (kept_gates(p, t0, b0), p.kept) if keep else (pointer(work, 0), p.piece)
        if p.source == FEATURES and not keep:
            project_piece(p, projected, apart, t0, steps, group)
        for s in range(s0, s1):
            for i in range(steps):
                t = t0 + (i if p.reverse else steps - 1 - i)
                for b in range(b0, b1):
                    if t >= p.lengths[b]:
                        continue
                    opening, closing = is_first_or_last(p, t, b)
                    place, row, now = (b - b0) * p.piece + t - t0, s * p.batch + b, t * p.rows + s * p.batch + b
                    before = now + (p.rows if p.reverse else -p.rows)
                    h = StepPointers(
                        gates=pointer(gates, place * width),
                        logits=pointer(logits, place * wide),
                        us=pointer(us, place * full),
                        old=old,
                        new=pointer(given.memory, now * d),
                        memory=pointer(out.memory, row * full),
                        sums=sums,
                    )
                    its_input = pointer(projected, ((b - b0) * apart + t - t0) * width)
                    g = gate_source(p, its_input, t, row, opening, pointer(given.alpha, before * k), one)
                    # Recompute the gates, in a separate loop, because they do not depend on δα.
                    if p.lstm:
                        if opening:
                            copy(old, 0, first_memory(p, row), 0, full)
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


@kernel
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


@kernel
def back_tokens(p: Plan, weights: Array, table: Array, out: Array, work: Array, low: int, high: int) -> None:
    """δx of the tokens low … high from the table's gradient."""
    _back_input(p, weights, out, low, 1, pointer(table, low * sizes(p)[3]), high - low, pointer(work, 0))


@kernel
def back_table(p: Plan, table: Array, out: Sums, one: Array, tokens: int, v: int) -> None:
    """Gradients of panel v of the input's weights and bias from the table's gradient."""
    lanes, _, slots, _, _ = sizes(p)
    inner, f, gates = (4 if p.lstm else 3) * lanes, p.features, pointer(table, v * slots * lanes)
    _back_weights(p, pointer(out.input, v * f * inner), f, pointer(p.x, 0), strides(0, 1, f), gates, tokens)
    _back_weights(p, pointer(out.bias, v * inner), 1, pointer(one, 0), strides(0), gates, tokens)


@kernel
def add_parts(parts: Array, size: int) -> None:
    """Add all further parts to the first, in order."""
    for number in range(1, parts.size // size):
        accumulate(parts, 0, parts, number * size, size)
