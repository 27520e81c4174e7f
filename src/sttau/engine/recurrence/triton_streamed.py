"""Kernels for any number of states, which read U and S, or what registers do not hold of them, at every step.

A program owns R rows, which share what is read. Sums over states (mixtures of U and S) are taken by threads that own
columns; sums over columns (logits, gradients of α) by threads that own states, which read the transposed matrices, so
that few values pass between threads. Many loads are issued at once: N states of each gate, or a tile of KB states.
"""

from __future__ import annotations

import triton
import triton.language as tl

from sttau.engine.recurrence.triton_common import (
    ANY_ADDRESS,
    ANY_GRADIENT,
    ANY_INTEGER,
    gates,
    load_gates,
    mix_rows,
    rows_of,
    tanh,
)


@triton.jit
def _load_tile(
    across, block: tl.constexpr, part: tl.constexpr, columns, d: tl.constexpr, K: tl.constexpr, KB: tl.constexpr
):
    """KB states of d columns: (D, KB)"""
    j = block * KB + tl.arange(0, KB)
    return tl.load(
        across + (part * d + columns)[:, None] * K + j[None, :],
        mask=(columns < d)[:, None] & (j < K)[None, :],
        other=0.0,
    )


@triton.jit(do_not_specialize=ANY_INTEGER, do_not_specialize_on_alignment=ANY_ADDRESS)
def forward_streamed(
    x, across, recurrent, states, temperature, peephole, start, first, lengths,
    alpha, soft, output, memory, last,
    t0, t1, time, B, rows, x_stride, start_stride, first_stride,
    d: tl.constexpr, K: tl.constexpr, D: tl.constexpr, GRU: tl.constexpr, HARD: tl.constexpr,
    REVERSE: tl.constexpr, READ: tl.constexpr, PEEPHOLE: tl.constexpr, QUIET: tl.constexpr, KEEP: tl.constexpr,
    R: tl.constexpr, KR: tl.constexpr, N: tl.constexpr, KB: tl.constexpr, NB: tl.constexpr,
):  # fmt: skip
    """``across`` is Sᵀ, (d, K)."""
    G: tl.constexpr = 3 if GRU else 4
    row, sequence, length, longest = rows_of(tl.program_id(0), lengths, time, B, rows, R)
    steps = tl.minimum(longest, t1) - t0
    if REVERSE:
        t = tl.minimum(longest, t1) - 1
        move = -1
    else:
        t = tl.cast(t0, tl.int64)
        move = 1
    if steps > 0:
        columns = tl.arange(0, D)
        on = columns < d
        inverse = 1 / tl.load(temperature)
        resident = ()
        for i in tl.static_range(KR * G):
            resident = resident + (tl.load(recurrent + i * d + columns, mask=on, other=0.0),)
        peep = ()
        if PEEPHOLE:
            peep = load_gates(peephole, columns, on, 3, d)
        c = ()
        for r in tl.static_range(R):
            if GRU:
                c = c + (tl.zeros([D], tl.float32),)
            else:
                kept = tl.load(last + row[r] * d + columns, mask=columns < tl.where(row[r] < rows, d, 0), other=0.0)
                c = c + (kept,)
        for _ in range(steps):
            place = t * rows + row[0]
            active = ()
            begins = ()
            goes_on = ()
            for r in tl.static_range(R):
                there = t < length[r]
                opens = there & ((t == length[r] - 1) if REVERSE else (t == 0))
                active = active + (there,)
                begins = begins + (opens,)
                goes_on = goes_on + (tl.where(there & (opens == 0), K, 0),)
            before = alpha + (place - move * rows) * K
            h = mix_rows(before, K, goes_on, resident, recurrent, columns, d, G, K, KR, N, R)
            if GRU:
                mixed = mix_rows(before, K, goes_on, resident, states, columns, d, 1, K, 0, G * N, R)
            u = ()
            memories = ()
            for r in tl.static_range(R):
                here = columns < tl.where(active[r], d, 0)
                opened = columns < tl.where(begins[r], d, 0)
                xs = load_gates(x + ((t - t0) * B + sequence[r]) * x_stride, columns, here, G, d)
                opening = load_gates(start + row[r] * start_stride, columns, opened, G, d)
                given = tl.load(first + row[r] * first_stride + columns, mask=opened, other=0.0)
                own = ()
                for g in tl.static_range(G):
                    own = own + (opening[g] + h[r * G + g],)
                if GRU:
                    new, held = gates(xs, own, c[r], given + mixed[r], peep, GRU, PEEPHOLE)
                else:
                    new, held = gates(xs, own, tl.where(begins[r], given, c[r]), c[r], peep, GRU, PEEPHOLE)
                    if KEEP:
                        tl.store(memory + (place + r) * d + columns, held, mask=here)
                    held = tl.where(active[r], held, c[r])
                u = u + (new,)
                memories = memories + (held,)
                if READ == 2:
                    tl.store(output + (place + r) * d + columns, new.to(output.dtype.element_ty), mask=here)
                elif READ == 1:
                    ends = active[r] & ((t == 0) if REVERSE else (t == length[r] - 1))
                    shown = columns < tl.where(ends, d, 0)
                    tl.store(output + row[r] * d + columns, new.to(output.dtype.element_ty), mask=shown)
            c = memories
            l = ()  # NB tiles for each row
            for b in tl.static_range(NB):
                tile = _load_tile(across, b, 0, columns, d, K, KB)
                for r in tl.static_range(R):
                    l = l + (tl.sum(tile * u[r][:, None], 0),)
            state = tl.arange(0, KB)
            for r in tl.static_range(R):
                scores = ()
                top = tl.cast(float("-inf"), tl.float32)
                for b in tl.static_range(NB):
                    j = b * KB + state
                    score = l[b * R + r]
                    if not QUIET:
                        score += tl.load(alpha + (place + r) * K + j, mask=j < tl.where(active[r], K, 0), other=0.0)
                    score = tl.where(j < K, score * inverse, float("-inf"))
                    scores = scores + (score,)
                    top = tl.maximum(top, tl.max(score, 0))
                total = 0.0
                weights = ()
                for b in tl.static_range(NB):
                    weight = tl.exp(scores[b] - top)
                    weights = weights + (weight,)
                    total += tl.sum(weight, 0)
                if HARD:
                    winner = tl.cast(NB * KB, tl.int32)
                    for b in tl.static_range(NB):
                        winner = tl.minimum(winner, tl.min(tl.where(scores[b] == top, b * KB + state, NB * KB), 0))
                for b in tl.static_range(NB):
                    j = b * KB + state
                    a = weights[b] / total
                    if HARD:
                        if KEEP:
                            tl.store(soft + (place + r) * K + j, a, mask=j < tl.where(active[r], K, 0))
                        a = (j == winner).to(tl.float32)
                    tl.store(alpha + (place + r) * K + j, a, mask=j < tl.where(active[r], K, 0))
            tl.debug_barrier()  # what some threads wrote, others read
            t += move
        if not GRU:
            for r in tl.static_range(R):
                tl.store(last + row[r] * d + columns, c[r], mask=columns < tl.where(row[r] < rows, d, 0))


@triton.jit(do_not_specialize=ANY_INTEGER, do_not_specialize_on_alignment=ANY_GRADIENT)
def backward_streamed(
    across, states, temperature, peephole, start, first, lengths,
    alpha, soft, memory,
    grad_alpha, grad_output, wide, coefficients, carry_alpha, carry_memory, grad_temperature, grad_peephole,
    grad_start, grad_first,
    t0, t1, time, B, rows, start_stride, first_stride,
    d: tl.constexpr, K: tl.constexpr, D: tl.constexpr, GRU: tl.constexpr, HARD: tl.constexpr,
    REVERSE: tl.constexpr, READ: tl.constexpr, PEEPHOLE: tl.constexpr,
    R: tl.constexpr, TR: tl.constexpr, N: tl.constexpr, KB: tl.constexpr, NB: tl.constexpr, KP: tl.constexpr,
):  # fmt: skip
    """``wide`` holds what the gates read, from x and α; it is overwritten. ``across`` is (U, and S for a GRU)ᵀ.

    The first TR tiles of ``across`` stay in registers.
    """
    G: tl.constexpr = 3 if GRU else 4
    BLOCKS: tl.constexpr = 6 if GRU else 5  # blocks of d values in a row of ``wide``
    row, _sequence, length, longest = rows_of(tl.program_id(0), lengths, time, B, rows, R)
    steps = tl.minimum(longest, t1) - t0
    if REVERSE:
        t = tl.cast(t0, tl.int64)
        move = 1
    else:
        t = tl.minimum(longest, t1) - 1
        move = -1
    if steps > 0:
        columns = tl.arange(0, D)
        on = columns < d
        state = tl.arange(0, KP)
        inverse = 1 / tl.load(temperature)
        resident = ()
        for i in tl.static_range(TR):
            resident = resident + (_load_tile(across, i // 4, i % 4, columns, d, K, KB),)
        peep = ()
        if PEEPHOLE:
            peep = load_gates(peephole, columns, on, 3, d)
        dc = ()
        tau = ()
        seen = ()
        for r in tl.static_range(R):
            exists = row[r] < rows
            if carry_memory is None:
                dc = dc + (tl.zeros([D], tl.float32),)
            else:
                dc = dc + (
                    tl.load(carry_memory + row[r] * d + columns, mask=columns < tl.where(exists, d, 0), other=0.0),
                )
            tau = tau + (tl.load(grad_temperature + row[r], mask=exists, other=0.0),)
            if PEEPHOLE:
                seen = seen + load_gates(
                    grad_peephole + row[r] * 3 * d, columns, columns < tl.where(exists, d, 0), 3, d
                )
        for _ in range(steps):
            place = t * rows + row[0]
            active = ()
            begins = ()
            count = ()
            slopes = ()
            for r in tl.static_range(R):
                there = t < length[r]
                opens = there & ((t == length[r] - 1) if REVERSE else (t == 0))
                active = active + (there,)
                begins = begins + (opens,)
                count = count + (tl.where(there, K, 0),)
                exist = state < count[r]
                if HARD:
                    s = tl.load(soft + (place + r) * K + state, mask=exist, other=0.0)
                else:
                    s = tl.load(alpha + (place + r) * K + state, mask=exist, other=0.0)
                da = tl.load(carry_alpha + row[r] * K + state, mask=exist, other=0.0)
                if grad_alpha is not None:
                    da += tl.load(grad_alpha + (place + r) * K + state, mask=exist, other=0.0)
                dl = s * (da - tl.sum(s * da, 0)) * inverse
                slopes = slopes + (tau[r] - tl.sum(dl * tl.log(tl.maximum(s, 1e-37)), 0),)
                into = coefficients + (place + r) * (2 * K + 2)
                goes_on = state < tl.where(there & (opens == 0), K, 0)
                back = tl.load(alpha + (place + r + move * rows) * K + state, mask=goes_on, other=0.0)
                tl.store(into + state, back, mask=exist)
                tl.store(into + K + state, dl, mask=exist)
                tl.store(into + 2 * K, 1.0, mask=there)
                tl.store(into + 2 * K + 1, tl.where(opens, 1.0, 0.0), mask=there)
            tau = slopes
            tl.debug_barrier()
            mixed = mix_rows(
                coefficients + place * (2 * K + 2) + K, 2 * K + 2, count, (), states, columns, d, 1, K, 0, N, R
            )
            parts = ()  # four for each row
            carried = ()
            for r in tl.static_range(R):
                du = mixed[r]
                here = columns < tl.where(active[r], d, 0)
                opened = columns < tl.where(begins[r], d, 0)
                goes_on = columns < tl.where(active[r] & (begins[r] == 0), d, 0)
                if READ == 2:
                    du += tl.load(grad_output + (place + r) * d + columns, mask=here, other=0.0).to(tl.float32)
                elif READ == 1:
                    ends = active[r] & ((t == 0) if REVERSE else (t == length[r] - 1))
                    shown = columns < tl.where(ends, d, 0)
                    du += tl.load(grad_output + row[r] * d + columns, mask=shown, other=0.0).to(tl.float32)
                out = wide + ((t - t0) * rows + row[r]) * BLOCKS * d + columns
                xs = load_gates(out - columns, columns, here, BLOCKS - 1, d)
                h = load_gates(start + row[r] * start_stride, columns, opened, G, d)
                given = tl.load(first + row[r] * first_stride + columns, mask=opened, other=0.0)
                if GRU:
                    m = xs[3] + h[2]
                    old = xs[4] + given
                    r_gate = tl.sigmoid(xs[0] + h[0])
                    z = tl.sigmoid(xs[1] + h[1])
                    n = tanh(xs[2] + r_gate * m)
                    dn = du * (1 - z) * (1 - n * n)
                    dz = du * (old - n) * z * (1 - z)
                    dr = dn * m * r_gate * (1 - r_gate)
                    dm = dn * r_gate
                    dh = du * z
                    own = (dr, dz, dm, dh)
                    tl.store(out, dr, mask=here)
                    tl.store(out + d, dz, mask=here)
                    tl.store(out + 2 * d, dn, mask=here)
                    tl.store(out + 3 * d, dm, mask=here)
                    tl.store(out + 4 * d, dh, mask=here)
                    tl.store(out + 5 * d, n + z * (old - n), mask=here)
                    if grad_first is not None:
                        tl.store(grad_first + row[r] * d + columns, dh, mask=opened)
                    carried = carried + (dc[r],)
                else:
                    c = tl.load(memory + (place + r) * d + columns, mask=here, other=0.0)
                    old = given + tl.load(memory + (place + r + move * rows) * d + columns, mask=goes_on, other=0.0)
                    i = xs[0] + h[0]
                    f = xs[1] + h[1]
                    g = tanh(xs[2] + h[2])
                    o = xs[3] + h[3]
                    if PEEPHOLE:
                        i += peep[0] * old
                        f += peep[1] * old
                        o += peep[2] * c
                    i = tl.sigmoid(i)
                    f = tl.sigmoid(f)
                    o = tl.sigmoid(o)
                    y = tanh(c)
                    do = du * y * o * (1 - o)
                    held = dc[r] + du * o * (1 - y * y)
                    if PEEPHOLE:
                        held += do * peep[2]
                    di = held * g * i * (1 - i)
                    df = held * old * f * (1 - f)
                    dg = held * i * (1 - g * g)
                    held *= f
                    if PEEPHOLE:
                        held += di * peep[0] + df * peep[1]
                        valid = tl.where(active[r], 1.0, 0.0)
                        seen = seen + (seen[3 * r] + valid * di * old, seen[3 * r + 1] + valid * df * old)
                        seen = seen + (seen[3 * r + 2] + valid * do * c,)
                    own = (di, df, dg, do)
                    tl.store(out, di, mask=here)
                    tl.store(out + d, df, mask=here)
                    tl.store(out + 2 * d, dg, mask=here)
                    tl.store(out + 3 * d, do, mask=here)
                    tl.store(out + 4 * d, o * y, mask=here)
                    carried = carried + (tl.where(active[r], held, dc[r]),)
                if grad_start is not None:
                    for gate in tl.static_range(G):
                        tl.store(grad_start + (row[r] * G + gate) * d + columns, own[gate], mask=opened)
                parts = parts + own
            dc = carried
            if PEEPHOLE:
                kept = ()
                for i in tl.static_range(3 * R):
                    kept = kept + (seen[3 * R + i],)
                seen = kept
            for b in tl.static_range(NB):
                total = ()
                for r in tl.static_range(R):
                    total = total + (tl.zeros([D, KB], tl.float32),)
                for i in tl.static_range(4):
                    if b * 4 + i < TR:
                        tile = resident[b * 4 + i]
                    else:
                        tile = _load_tile(across, b, i, columns, d, K, KB)
                    added = ()
                    for r in tl.static_range(R):
                        added = added + (total[r] + tile * parts[r * 4 + i][:, None],)
                    total = added
                j = b * KB + tl.arange(0, KB)
                for r in tl.static_range(R):
                    tl.store(carry_alpha + row[r] * K + j, tl.sum(total[r], 0), mask=j < tl.where(active[r], K, 0))
            tl.debug_barrier()  # what some threads wrote, others read
            t += move
        for r in tl.static_range(R):
            exists = row[r] < rows
            there = columns < tl.where(exists, d, 0)
            tl.store(grad_temperature + row[r], tau[r], mask=exists)
            if PEEPHOLE:
                for gate in tl.static_range(3):
                    tl.store(grad_peephole + (row[r] * 3 + gate) * d + columns, seen[3 * r + gate], mask=there)
            if not GRU:
                if grad_first is not None:
                    tl.store(grad_first + row[r] * d + columns, dc[r], mask=there)
