"""Kernels for more states than registers hold, which read U and S, or what is not held of them, at every step.

A program owns R rows, which share what is read. Sums over states (mixtures of U and S) are taken by threads that own
columns; sums over columns (logits, gradients of α) by threads that own states and a few columns, which read transposed
matrices, so that few values pass between threads. States are read in NB tiles of KB. Of the tiles of U, the first KEPT
stay in registers, the next L1 in the cache of that name, and the others come from the L2 cache past it; S is small.
What is read once is loaded one step ahead.
"""

from __future__ import annotations

import triton
import triton.language as tl

from sttau.engine.recurrence.triton_common import ANY_ADDRESS, ANY_GRADIENT, ANY_INTEGER, gates, load_gates, tanh
from sttau.engine.recurrence.triton_tiles import (
    load_across,
    load_along,
    load_states,
    mix_tiles,
    read_input,
    read_saved,
    rows_at,
    rows_of,
    tile_logits,
    tile_slopes,
)


@triton.jit(do_not_specialize=ANY_INTEGER, do_not_specialize_on_alignment=ANY_ADDRESS)
def forward_tiled(
    x, across, recurrent, states, temperature, peephole, start, first, lengths,
    alpha, soft, output, memory, last,
    t0, t1, time, B, rows, x_stride, start_stride, first_stride,
    d: tl.constexpr, K: tl.constexpr, D: tl.constexpr, GRU: tl.constexpr, HARD: tl.constexpr,
    REVERSE: tl.constexpr, READ: tl.constexpr, PEEPHOLE: tl.constexpr, QUIET: tl.constexpr, KEEP: tl.constexpr,
    R: tl.constexpr, KB: tl.constexpr, NB: tl.constexpr, KS: tl.constexpr, KEPT: tl.constexpr, L1: tl.constexpr,
):  # fmt: skip
    """``across`` is Sᵀ, (d, KS)."""
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
        state = tl.arange(0, KB)
        inverse = 1 / tl.load(temperature)
        kept = ()
        for number in tl.static_range(KEPT):
            kept = kept + (load_along(recurrent, number // G, number % G, columns, False, d, G, K, KB),)
        peep = ()
        if PEEPHOLE:
            peep = load_gates(peephole, columns, on, 3, d)
        c = ()
        for r in tl.static_range(R):
            if GRU:
                c = c + (tl.zeros([D], tl.float32),)
            else:
                begun = (row[r] < rows) & ((length[r] > t1) if REVERSE else (t0 > 0))
                held = tl.load(last + row[r] * d + columns, mask=columns < tl.where(begun, d, 0), other=0.0)
                c = c + (held,)
        active, opens = rows_at(t, t0, t1, length, R, REVERSE)
        a = load_states(alpha, (t - move) * rows + row[0], active, opens, K, KB, NB, R)
        fetched = read_input(x, (t - t0) * B, sequence, active, columns, x_stride, G, d, R)
        for _ in range(steps):
            place = t * rows + row[0]
            next_active, next_opens = rows_at(t + move, t0, t1, length, R, REVERSE)
            following = read_input(x, (t + move - t0) * B, sequence, next_active, columns, x_stride, G, d, R)
            h = mix_tiles(a, kept, recurrent, columns, d, G, K, KB, NB, R, KEPT, L1)
            if GRU:
                mixed = mix_tiles(a, kept, states, columns, d, 1, K, KB, NB, R, 0, NB)
            if not QUIET:
                always = ()
                for r in tl.static_range(R):
                    always = always + (active[r] & False,)
                gumbel = load_states(alpha, place, active, always, K, KB, NB, R)
            u = ()
            memories = ()
            for r in tl.static_range(R):
                here = columns < tl.where(active[r], d, 0)
                opened = columns < tl.where(opens[r], d, 0)
                opening = load_gates(start + row[r] * start_stride, columns, opened, G, d)
                given = tl.load(first + row[r] * first_stride + columns, mask=opened, other=0.0)
                xs = ()
                own = ()
                for g in tl.static_range(G):
                    xs = xs + (fetched[r * G + g],)
                    own = own + (opening[g] + h[r * G + g],)
                if GRU:
                    new, held = gates(xs, own, c[r], given + mixed[r], peep, GRU, PEEPHOLE)
                else:
                    new, held = gates(xs, own, tl.where(opens[r], given, c[r]), c[r], peep, GRU, PEEPHOLE)
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
            l = tile_logits(across, u, columns, d, KS, KB, NB, R)
            a = ()
            for r in tl.static_range(R):
                scores = ()
                largest = tl.full([KB], float("-inf"), tl.float32)
                for b in tl.static_range(NB):
                    score = l[b * R + r]
                    if not QUIET:
                        score += gumbel[r * NB + b]
                    score = tl.where(b * KB + state < K, score * inverse, float("-inf"))
                    scores = scores + (score,)
                    largest = tl.maximum(largest, score)
                top = tl.max(largest, 0)
                sums = tl.zeros([KB], tl.float32)
                weights = ()
                for b in tl.static_range(NB):
                    weights = weights + (tl.exp(scores[b] - top),)
                    sums += weights[b]
                scale = 1 / tl.sum(sums, 0)
                if HARD:
                    nearest = tl.full([KB], NB * KB, tl.int32)
                    for b in tl.static_range(NB):
                        nearest = tl.minimum(nearest, tl.where(scores[b] == top, b * KB + state, NB * KB))
                    winner = tl.min(nearest, 0)
                for b in tl.static_range(NB):
                    j = b * KB + state
                    exist = j < tl.where(active[r], K, 0)
                    weight = weights[b] * scale
                    if HARD:
                        if KEEP:
                            tl.store(soft + (place + r) * K + j, weight, mask=exist)
                        weight = (j == winner).to(tl.float32)
                    tl.store(alpha + (place + r) * K + j, weight, mask=exist)
                    a = a + (tl.where(active[r], weight, 0.0),)
            fetched = following
            active = next_active
            opens = next_opens
            t += move
        if not GRU:
            for r in tl.static_range(R):
                tl.store(last + row[r] * d + columns, c[r], mask=columns < tl.where(row[r] < rows, d, 0))


@triton.jit(do_not_specialize=ANY_INTEGER, do_not_specialize_on_alignment=ANY_GRADIENT)
def backward_tiled(
    across, states, temperature, peephole, start, first, lengths,
    alpha, soft, memory,
    grad_alpha, grad_output, wide, coefficients, carry_alpha, carry_memory, grad_temperature, grad_peephole,
    grad_start, grad_first,
    t0, t1, time, B, rows, start_stride, first_stride,
    d: tl.constexpr, K: tl.constexpr, D: tl.constexpr, GRU: tl.constexpr, HARD: tl.constexpr,
    REVERSE: tl.constexpr, READ: tl.constexpr, PEEPHOLE: tl.constexpr,
    R: tl.constexpr, KB: tl.constexpr, NB: tl.constexpr, KS: tl.constexpr, KEPT: tl.constexpr, L1: tl.constexpr,
):  # fmt: skip
    """``wide`` holds what the gates read, from x and α; it is overwritten. ``across`` is (U, and S for a GRU)ᵀ.

    Of ``coefficients``, only the gradients of the logits are written here.
    """
    G: tl.constexpr = 3 if GRU else 4
    BLOCKS: tl.constexpr = 6 if GRU else 5  # blocks of d values in a row of ``wide``
    READS: tl.constexpr = BLOCKS + 2
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
        state = tl.arange(0, KB)
        inverse = 1 / tl.load(temperature)
        kept = ()
        for number in tl.static_range(KEPT):
            kept = kept + (load_across(across, number // 4, number % 4, columns, False, d, KS, KB),)
        peep = ()
        if PEEPHOLE:
            peep = load_gates(peephole, columns, on, 3, d)
        dc = ()
        tau = ()
        seen = ()
        exists = ()
        never = ()
        for r in tl.static_range(R):
            exists = exists + (row[r] < rows,)
            never = never + (row[r] < 0,)
            there = columns < tl.where(exists[r], d, 0)
            if carry_memory is None:
                dc = dc + (tl.zeros([D], tl.float32),)
            else:
                dc = dc + (tl.load(carry_memory + row[r] * d + columns, mask=there, other=0.0),)
            tau = tau + (tl.load(grad_temperature + row[r], mask=exists[r], other=0.0),)
            if PEEPHOLE:
                seen = seen + load_gates(grad_peephole + row[r] * 3 * d, columns, there, 3, d)
        da = load_states(carry_alpha, row[0], exists, never, K, KB, NB, R)
        active, opens = rows_at(t, t0, t1, length, R, REVERSE)
        place = t * rows + row[0]
        given = soft if HARD else alpha
        s = load_states(given, place, active, never, K, KB, NB, R)
        if grad_alpha is not None:
            outer = load_states(grad_alpha, place, active, never, K, KB, NB, R)
        saved = read_saved(
            wide, memory, grad_output, place - t0 * rows, place, move, active, opens, columns, rows,
            BLOCKS, GRU, READ, d, R,
        )  # fmt: skip
        for _ in range(steps):
            place = t * rows + row[0]
            dl = ()
            slopes = ()
            for r in tl.static_range(R):
                dots = tl.zeros([KB], tl.float32)
                total = ()
                for b in tl.static_range(NB):
                    value = da[r * NB + b]
                    if grad_alpha is not None:
                        value += outer[r * NB + b]
                    total = total + (value,)
                    dots += value * s[r * NB + b]
                dot = tl.sum(dots, 0)
                into = coefficients + (place + r) * (2 * K + 2) + K + 2
                logs = tl.zeros([KB], tl.float32)
                for b in tl.static_range(NB):
                    j = b * KB + state
                    exist = j < tl.where(active[r], K, 0)
                    value = s[r * NB + b] * (total[b] - dot) * inverse
                    logs += value * tl.log(tl.maximum(s[r * NB + b], 1e-37))
                    tl.store(into + j, value, mask=exist)
                    dl = dl + (value,)
                slopes = slopes + (tau[r] - tl.sum(logs, 0),)
            tau = slopes
            mixed = mix_tiles(dl, (), states, columns, d, 1, K, KB, NB, R, 0, NB)
            parts = ()  # four for each row
            carried = ()
            noted = ()
            for r in tl.static_range(R):
                here = columns < tl.where(active[r], d, 0)
                opened = columns < tl.where(opens[r], d, 0)
                du = mixed[r] + saved[r * READS + BLOCKS + 1]
                if READ == 1:
                    ends = active[r] & ((t == 0) if REVERSE else (t == length[r] - 1))
                    shown = columns < tl.where(ends, d, 0)
                    du += tl.load(grad_output + row[r] * d + columns, mask=shown, other=0.0).to(tl.float32)
                out = wide + ((t - t0) * rows + row[r]) * BLOCKS * d + columns
                h = load_gates(start + row[r] * start_stride, columns, opened, G, d)
                origin = tl.load(first + row[r] * first_stride + columns, mask=opened, other=0.0)
                if GRU:
                    m = saved[r * READS + 3] + h[2]
                    old = saved[r * READS + 4] + origin
                    reset = tl.sigmoid(saved[r * READS] + h[0])
                    z = tl.sigmoid(saved[r * READS + 1] + h[1])
                    n = tanh(saved[r * READS + 2] + reset * m)
                    dn = du * (1 - z) * (1 - n * n)
                    dz = du * (old - n) * z * (1 - z)
                    dr = dn * m * reset * (1 - reset)
                    dm = dn * reset
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
                    c = saved[r * READS + 4]
                    old = saved[r * READS + 5] + origin
                    i = saved[r * READS] + h[0]
                    f = saved[r * READS + 1] + h[1]
                    g = tanh(saved[r * READS + 2] + h[2])
                    o = saved[r * READS + 3] + h[3]
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
                        noted = noted + (seen[3 * r] + valid * di * old, seen[3 * r + 1] + valid * df * old)
                        noted = noted + (seen[3 * r + 2] + valid * do * c,)
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
                seen = noted
            ahead = place + move * rows
            next_active, next_opens = rows_at(t + move, t0, t1, length, R, REVERSE)
            next_s = load_states(given, ahead, next_active, never, K, KB, NB, R)
            if grad_alpha is not None:
                next_outer = load_states(grad_alpha, ahead, next_active, never, K, KB, NB, R)
            next_saved = read_saved(
                wide, memory, grad_output, ahead - t0 * rows, ahead, move, next_active, next_opens, columns, rows,
                BLOCKS, GRU, READ, d, R,
            )  # fmt: skip
            gradient = tile_slopes(parts, kept, across, columns, d, KS, KB, NB, R, KEPT, L1)
            da = ()
            for r in tl.static_range(R):
                for b in tl.static_range(NB):
                    da = da + (tl.where(active[r], gradient[b * R + r], 0.0),)
            s = next_s
            if grad_alpha is not None:
                outer = next_outer
            saved = next_saved
            active = next_active
            opens = next_opens
            t += move
        for r in tl.static_range(R):
            there = columns < tl.where(exists[r], d, 0)
            tl.store(grad_temperature + row[r], tau[r], mask=exists[r])
            for b in tl.static_range(NB):
                j = b * KB + state
                tl.store(carry_alpha + row[r] * K + j, da[r * NB + b], mask=j < tl.where(exists[r], K, 0))
            if PEEPHOLE:
                for gate in tl.static_range(3):
                    tl.store(grad_peephole + (row[r] * 3 + gate) * d + columns, seen[3 * r + gate], mask=there)
            if not GRU:
                if grad_first is not None:
                    tl.store(grad_first + row[r] * d + columns, dc[r], mask=there)
