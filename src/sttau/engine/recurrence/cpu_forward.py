"""Forward kernels of the CPU engine; ``cpu.py`` explains the layout and calls them."""

from __future__ import annotations

from typing import Any

from sttau.engine.recurrence.cpu_common import (
    FEATURES,
    Group,
    Outputs,
    Plan,
    Source,
    first_memory,
    gate_source,
    gru_gates,
    is_first_or_last,
    kept_gates,
    lstm_gates,
    project,
    project_piece,
    sizes,
)
from sttau.engine.simd import (
    BYTES,
    Array,
    copy,
    device_function,
    exp,
    fill,
    fma,
    get,
    high_product,
    kernel,
    larger,
    largest,
    load,
    log,
    pointer,
    put,
    sigmoid,
    store,
    store_some,
    tanh,
    to_floats,
    total,
    where_positive,
    words_from,
    zeros,
)


@device_function
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


@device_function
def _draw(p: Plan, out: Array, row: int, t: int, steps: int, buffer: Array) -> None:
    """Gumbel noise (steps, k in whole Vectors) of one row from step t, as in ``engine/noise``. Lanes are steps."""
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


@device_function
def _gumbel(like: Array, bits: Any) -> Any:
    uniform = (to_floats(like, bits >> 9) + 0.5) * 2.0**-23
    return 0.0 - log(0.0 - log(uniform))


@device_function
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


@device_function
def _harden(p: Plan, z: Array, alpha: Array) -> None:
    """One-hot at the largest z."""
    best = 0
    for j in range(1, p.k):
        if get(z, j) > get(z, best):
            best = j
    for j in range(p.k):
        put(alpha, j, 0.0)
    put(alpha, best, 1.0)


@device_function
def _deliver(out: Array, to: int, values: Array, size: int) -> None:
    """Copy ``size`` values from a buffer of whole Vectors."""
    for i in range(0, size, BYTES // out.itemsize):
        store_some(out, to + i, load(values, i), size - i)


@device_function
def _lstm_step(p: Plan, g: Source, c: Array, u: Array) -> None:
    """One step of a row: its memory c and u."""
    lanes, panels, _, _, _ = sizes(p)
    full = panels * lanes
    for v in range(panels):
        i, f, n, o = lstm_gates(p, g, v)
        old = load(c, v * lanes)
        if p.peephole.size > 0:
            i = fma(load(p.peephole, v * lanes), old, i)
            f = fma(load(p.peephole, full + v * lanes), old, f)
        new = fma(sigmoid(f), old, sigmoid(i) * tanh(n))
        if p.peephole.size > 0:
            o = fma(load(p.peephole, 2 * full + v * lanes), new, o)
        store(c, v * lanes, new)
        store(u, v * lanes, sigmoid(o) * tanh(new))


@device_function
def _gru_step(p: Plan, g: Source, u: Array) -> None:
    lanes, panels, _, _, _ = sizes(p)
    for v in range(panels):
        n, r, z, old, h = gru_gates(p, g, v)
        n = tanh(fma(sigmoid(r), old, n))
        store(u, v * lanes, fma(sigmoid(z), h - n, n))


def forward_space(p: Plan, g: Group) -> int:
    """Size of the workspace of ``forward_rows``."""
    lanes, panels, _, width, wide = sizes.py_func(p)
    steps, rows = (g.b1 - g.b0) * p.piece, (g.b1 - g.b0) * (g.s1 - g.s0)
    gates = steps * width if p.source == FEATURES else 0
    return int(gates + steps * wide + 5 * lanes + (rows + 1) * (wide + panels * lanes))


@kernel
def forward_rows(p: Plan, outputs: Outputs, work: Array, group: Group) -> None:
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
    fill(z, wide, -1e30)  # states beyond k are never chosen
    fill(one, 1, 1.0)
    if p.lstm:
        for n in range(rows):
            copy(memories, n * full, first_memory(p, (s0 + n // mine) * p.batch + b0 + n % mine), 0, full)
    pieces = (p.time + p.piece - 1) // p.piece
    for number in range(pieces):
        t0 = (pieces - 1 - number if p.reverse else number) * p.piece
        steps = min(p.piece, p.time - t0)
        keep = s0 == 0 and t0 + steps <= p.kept  # one of the groups that share sequences is enough
        projected, apart = (kept_gates(p, t0, b0), p.kept) if keep else (pointer(work, 0), p.piece)
        if p.source == FEATURES:
            project_piece(p, projected, apart, t0, steps, group)
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
                    opening, closing = is_first_or_last(p, t, b)
                    row, n, now = s * p.batch + b, (s - s0) * mine + b - b0, t * p.rows + s * p.batch + b
                    a, c = pointer(alphas, n * wide), pointer(memories, n * full)
                    its_input = pointer(projected, ((b - b0) * apart + t - t0) * width)
                    g = gate_source(p, its_input, t, row, opening, a, one)
                    if p.lstm:
                        _lstm_step(p, g, c, u)
                        if outputs.memory.size > 0:
                            _deliver(outputs.memory, now * d, c, d)
                        if closing:
                            _deliver(outputs.last, row * d, c, d)
                    else:
                        _gru_step(p, g, u)
                    if p.every:
                        _deliver(outputs.output, now * d, u, d)
                    elif p.final and closing:
                        _deliver(outputs.output, row * d, u, d)
                    _logits(p, z, u)
                    _transition(p, z, pointer(noise, ((b - b0) * p.piece + t - t0) * wide), a)
                    if p.hard:
                        if outputs.soft.size > 0:
                            _deliver(outputs.soft, now * k, a, k)
                        _harden(p, z, a)
                    _deliver(outputs.alpha, now * k, a, k)


@kernel
def project_tokens(p: Plan, low: int, high: int) -> None:
    """The input's part of the gates of the tokens low … high."""
    project(p, pointer(p.projected, low * sizes(p)[3]), low, 1, high - low)
