"""Kernels for few states, unrolled over the states, with U and S in registers."""

from __future__ import annotations

import triton
import triton.language as tl

from sttau.engine.recurrence.triton_common import (
    ANY_ADDRESS,
    ANY_GRADIENT,
    ANY_INTEGER,
    fetch,
    gates,
    load_gates,
    load_gradient,
    load_previous,
    load_projection,
    load_rows,
    load_scalars,
    mix,
    project,
    sum_vectors,
    tanh,
    valid_steps,
    zero_scalars,
    zeros_like,
)


@triton.jit(do_not_specialize=ANY_INTEGER, do_not_specialize_on_alignment=ANY_ADDRESS)
def forward_resident(
    x, weight, bias, recurrent, states, temperature, peephole, start, first, lengths,
    alpha, soft, output, memory, last,
    t0, t1, time, B, rows, x_stride, start_stride, first_stride,
    d: tl.constexpr, F: tl.constexpr, K: tl.constexpr, D: tl.constexpr, GRU: tl.constexpr, HARD: tl.constexpr,
    REVERSE: tl.constexpr, READ: tl.constexpr, PEEPHOLE: tl.constexpr, QUIET: tl.constexpr, KEEP: tl.constexpr,
):  # fmt: skip
    G: tl.constexpr = 3 if GRU else 4
    row = tl.program_id(0).to(tl.int64)
    sequence = row % B
    length = valid_steps(lengths, sequence, time)
    steps = tl.minimum(length, t1) - t0
    if REVERSE:
        t = tl.minimum(length, t1) - 1
        move = -1
    else:
        t = tl.cast(t0, tl.int64)
        move = 1
    if steps > 0:
        columns = tl.arange(0, D)
        on = columns < d
        inverse = 1 / tl.load(temperature)
        U = load_rows(recurrent, columns, on, K, G, d)
        S = load_rows(states, columns, on, K, 1, d)
        W, b = load_projection(weight, bias, columns, on, G, d, F)
        peep = ()
        if PEEPHOLE:
            peep = load_gates(peephole, columns, on, 3, d)
        begins = (t == length - 1) if REVERSE else (t == 0)
        goes_on = (t != length - 1) if REVERSE else (t != 0)
        fetched = fetch(x, (t - t0) * B + sequence, columns, on, G, d, x_stride, F)
        a = load_previous(alpha + ((t - move) * rows + row) * K, goes_on, K)  # of the previous piece, if any
        opening = load_gates(start + row * start_stride, columns, columns < tl.where(begins, d, 0), G, d)
        if GRU:
            c = tl.load(first + row * first_stride + columns, mask=columns < tl.where(begins, d, 0), other=0.0)  # h_0
        else:
            c = tl.load(last + row * d + columns, mask=on, other=0.0)
            if begins:
                c = tl.load(first + row * first_stride + columns, mask=on, other=0.0)

        for _ in range(steps):
            place = t * rows + row
            ahead = tl.minimum(tl.maximum(t + move, t0), t1 - 1)  # a step's input is loaded one step ahead
            following = fetch(x, (ahead - t0) * B + sequence, columns, on, G, d, x_stride, F)
            xs = project(fetched, W, b, G, F)
            if not QUIET:
                gumbel = load_scalars(alpha + place * K, K)
            h = ()
            for g in tl.static_range(G):
                h = h + (opening[g] + mix(a, U, g, G, K),)
            if GRU:
                u, _ = gates(xs, h, c, c + mix(a, S, 0, 1, K), peep, GRU, PEEPHOLE)
                c = tl.zeros_like(c)
            else:
                u, c = gates(xs, h, c, c, peep, GRU, PEEPHOLE)
                if KEEP:
                    tl.store(memory + place * d + columns, c, mask=on)
            p = ()
            for j in tl.static_range(K):
                p = p + (S[j] * u,)
            raw = sum_vectors(p, K)
            l = ()
            for j in tl.static_range(K):
                if QUIET:
                    l = l + (raw[j] * inverse,)
                else:
                    l = l + ((raw[j] + gumbel[j]) * inverse,)
            top = l[0]
            for j in tl.static_range(1, K):
                top = tl.maximum(top, l[j])
            e = ()
            for j in tl.static_range(K):
                e = e + (tl.exp(l[j] - top),)
            total = e[0]
            for j in tl.static_range(1, K):
                total += e[j]
            scale = 1 / total
            a = ()
            free = total > 0  # until the first largest is found
            for j in tl.static_range(K):
                if HARD:
                    if KEEP:
                        tl.store(soft + place * K + j, e[j] * scale)
                    chosen = free & (l[j] == top)
                    free = free & (l[j] != top)
                    a = a + (chosen.to(tl.float32),)
                else:
                    a = a + (e[j] * scale,)
                tl.store(alpha + place * K + j, a[j])
            if READ == 2:
                tl.store(output + place * d + columns, u.to(output.dtype.element_ty), mask=on)
            elif READ == 1:
                if (t == 0) if REVERSE else (t == length - 1):
                    tl.store(output + row * d + columns, u.to(output.dtype.element_ty), mask=on)
            fetched = following
            opening = zeros_like(opening, G)
            t += move
        if not GRU:
            tl.store(last + row * d + columns, c, mask=on)


@triton.jit(do_not_specialize=ANY_INTEGER, do_not_specialize_on_alignment=ANY_GRADIENT)
def backward_resident(
    x, weight, bias, recurrent, states, temperature, peephole, start, first, lengths,
    alpha, soft, memory,
    grad_alpha, grad_output, wide, coefficients, carry_alpha, carry_memory, grad_temperature, grad_peephole,
    grad_start, grad_first,
    t0, t1, time, B, rows, x_stride, start_stride, first_stride,
    d: tl.constexpr, F: tl.constexpr, K: tl.constexpr, D: tl.constexpr, GRU: tl.constexpr, HARD: tl.constexpr,
    REVERSE: tl.constexpr, READ: tl.constexpr, PEEPHOLE: tl.constexpr, CARRY: tl.constexpr,
):  # fmt: skip
    G: tl.constexpr = 3 if GRU else 4
    BLOCKS: tl.constexpr = 6 if GRU else 5  # blocks of d values in a row of ``wide``
    row = tl.program_id(0).to(tl.int64)
    sequence = row % B
    length = valid_steps(lengths, sequence, time)
    columns = tl.arange(0, D)
    on = columns < d
    # The last step read comes first.
    if REVERSE:
        t = tl.cast(t0, tl.int64)
        move = 1
    else:
        t = tl.minimum(length, t1) - 1
        move = -1
    steps = tl.minimum(length, t1) - t0
    if steps > 0:
        inverse = 1 / tl.load(temperature)
        U = load_rows(recurrent, columns, on, K, G, d)
        S = load_rows(states, columns, on, K, 1, d)
        W, b = load_projection(weight, bias, columns, on, G, d, F)
        if PEEPHOLE:
            peep = load_gates(peephole, columns, on, 3, d)
        opening = load_gates(start + row * start_stride, columns, on, G, d)
        origin = tl.load(first + row * first_stride + columns, mask=on, other=0.0)
        if CARRY:
            da = load_scalars(carry_alpha + row * K, K)
            grad_tau = tl.load(grad_temperature + row)
        else:
            da = zero_scalars(K)
            grad_tau = 0.0
        if PEEPHOLE:
            own = grad_peephole + row * 3 * d
            seen = load_gates(own, columns, on if CARRY else columns < 0, 3, d)
        a = load_scalars(alpha + (t * rows + row) * K, K)
        if not GRU:
            c = tl.load(memory + (t * rows + row) * d + columns, mask=on, other=0.0)
            if carry_memory is None:
                dc = tl.zeros([D], tl.float32)
            else:
                dc = tl.load(carry_memory + row * d + columns, mask=on, other=0.0)
        # Everything a step reads is loaded one step ahead: here for the first.
        goes_on = (t != length - 1) if REVERSE else (t != 0)
        place = t * rows + row
        fetched = fetch(x, (t - t0) * B + sequence, columns, on, G, d, x_stride, F)
        old = load_previous(alpha + (place + move * rows) * K, goes_on, K)
        outer = load_gradient(grad_alpha, place, K)
        if not GRU:
            was = tl.load(
                memory + (place + move * rows) * d + columns, mask=columns < tl.where(goes_on, d, 0), other=0.0
            )
        if READ == 2:
            du = tl.load(grad_output + place * d + columns, mask=on, other=0.0).to(tl.float32)
        for _ in range(steps):
            place = t * rows + row
            begins = (t == length - 1) if REVERSE else (t == 0)
            ahead = tl.minimum(tl.maximum(t + move, t0), t1 - 1)
            goes_on = (ahead != length - 1) if REVERSE else (ahead != 0)
            there = ahead * rows + row
            following = fetch(x, (ahead - t0) * B + sequence, columns, on, G, d, x_stride, F)
            xs = project(fetched, W, b, G, F)
            next_old = load_previous(alpha + (there + move * rows) * K, goes_on, K)
            next_outer = load_gradient(grad_alpha, there, K)
            if not GRU:
                next_was = tl.load(
                    memory + (there + move * rows) * d + columns, mask=columns < tl.where(goes_on, d, 0), other=0.0
                )
                was = tl.where(begins, origin, was)
            if READ == 2:
                next_du = tl.load(grad_output + there * d + columns, mask=on, other=0.0).to(tl.float32)
            elif READ == 1:
                ends = (t == 0) if REVERSE else (t == length - 1)
                du = tl.load(grad_output + row * d + columns, mask=columns < tl.where(ends, d, 0), other=0.0).to(
                    tl.float32
                )
            else:
                du = tl.zeros([D], tl.float32)
            if HARD:
                s = load_scalars(soft + place * K, K)
            else:
                s = a

            # Recompute the forward pass, off the serial path, because α is saved.
            if GRU:
                r = tl.sigmoid(xs[0] + mix(old, U, 0, 3, K) + tl.where(begins, opening[0], 0.0))
                z = tl.sigmoid(xs[1] + mix(old, U, 1, 3, K) + tl.where(begins, opening[1], 0.0))
                m = mix(old, U, 2, 3, K) + tl.where(begins, opening[2], 0.0)
                n = tanh(xs[2] + r * m)
                h = mix(old, S, 0, 1, K) + tl.where(begins, origin, 0.0)
                u = n + z * (h - n)
            else:
                i = xs[0] + mix(old, U, 0, 4, K) + tl.where(begins, opening[0], 0.0)
                f = xs[1] + mix(old, U, 1, 4, K) + tl.where(begins, opening[1], 0.0)
                g = tanh(xs[2] + mix(old, U, 2, 4, K) + tl.where(begins, opening[2], 0.0))
                o = xs[3] + mix(old, U, 3, 4, K) + tl.where(begins, opening[3], 0.0)
                if PEEPHOLE:
                    i += peep[0] * was
                    f += peep[1] * was
                    o += peep[2] * c
                i = tl.sigmoid(i)
                f = tl.sigmoid(f)
                o = tl.sigmoid(o)
                y = tanh(c)
                u = o * y

            dot = s[0] * (da[0] + outer[0])
            for j in tl.static_range(1, K):
                dot += s[j] * (da[j] + outer[j])
            dl = ()
            into = coefficients + place * (2 * K + 2 + F)
            for j in tl.static_range(K):
                dl = dl + (s[j] * (da[j] + outer[j] - dot) * inverse,)
                grad_tau -= dl[j] * tl.log(tl.maximum(s[j], 1e-37))  # where α is 0, so is its gradient
                tl.store(into + j, old[j])
                tl.store(into + K + j, dl[j])
            tl.store(into + 2 * K, 1.0)
            tl.store(into + 2 * K + 1, tl.where(begins, 1.0, 0.0))
            for number in tl.static_range(F):
                tl.store(into + 2 * K + 2 + number, fetched[number])
            du += mix(dl, S, 0, 1, K)

            out = wide + ((t - t0) * rows + row) * BLOCKS * d + columns
            p = ()
            if GRU:
                dn = du * (1 - z) * (1 - n * n)
                dz = du * (h - n) * z * (1 - z)
                dr = dn * m * r * (1 - r)
                dm = dn * r
                dh = du * z
                for j in tl.static_range(K):
                    p = p + (dr * U[3 * j] + dz * U[3 * j + 1] + dm * U[3 * j + 2] + dh * S[j],)
                tl.store(out, dr, mask=on)
                tl.store(out + d, dz, mask=on)
                tl.store(out + 2 * d, dn, mask=on)
                tl.store(out + 3 * d, dm, mask=on)
                tl.store(out + 4 * d, dh, mask=on)
                tl.store(out + 5 * d, u, mask=on)
                opened = columns < tl.where(begins, d, 0)
                if grad_start is not None:
                    tl.store(grad_start + row * 3 * d + columns, dr, mask=opened)
                    tl.store(grad_start + row * 3 * d + d + columns, dz, mask=opened)
                    tl.store(grad_start + row * 3 * d + 2 * d + columns, dm, mask=opened)
                if grad_first is not None:
                    tl.store(grad_first + row * d + columns, dh, mask=opened)
            else:
                do = du * y * o * (1 - o)
                dc += du * o * (1 - y * y)
                if PEEPHOLE:
                    dc += do * peep[2]
                di = dc * g * i * (1 - i)
                df = dc * was * f * (1 - f)
                dg = dc * i * (1 - g * g)
                dc *= f
                if PEEPHOLE:
                    dc += di * peep[0] + df * peep[1]
                    seen = (seen[0] + di * was, seen[1] + df * was, seen[2] + do * c)
                for j in tl.static_range(K):
                    p = p + (di * U[4 * j] + df * U[4 * j + 1] + dg * U[4 * j + 2] + do * U[4 * j + 3],)
                tl.store(out, di, mask=on)
                tl.store(out + d, df, mask=on)
                tl.store(out + 2 * d, dg, mask=on)
                tl.store(out + 3 * d, do, mask=on)
                tl.store(out + 4 * d, u, mask=on)
                if grad_start is not None:
                    opened = columns < tl.where(begins, d, 0)
                    tl.store(grad_start + row * 4 * d + columns, di, mask=opened)
                    tl.store(grad_start + row * 4 * d + d + columns, df, mask=opened)
                    tl.store(grad_start + row * 4 * d + 2 * d + columns, dg, mask=opened)
                    tl.store(grad_start + row * 4 * d + 3 * d + columns, do, mask=opened)
                c = was
                was = next_was
            da = sum_vectors(p, K)
            a = old
            old = next_old
            outer = next_outer
            fetched = following
            if READ == 2:
                du = next_du
            t += move
        for j in tl.static_range(K):
            tl.store(carry_alpha + row * K + j, da[j])
        tl.store(grad_temperature + row, grad_tau)
        if PEEPHOLE:
            for gate in tl.static_range(3):
                tl.store(own + gate * d + columns, seen[gate], mask=on)
        if not GRU:
            if grad_first is not None:
                tl.store(grad_first + row * d + columns, dc, mask=on)


@triton.jit(do_not_specialize=["rows"], do_not_specialize_on_alignment=["states", "weight"])
def through_weight(
    sums, states, weight, by_row, of_weight, of_bias, of_states, of_temperature, rows,
    d: tl.constexpr, K: tl.constexpr, GRU: tl.constexpr,
):  # fmt: skip
    """From dU, at the head of ``sums``, to W_h = dUᵀ S and b_h in tiles; dS in stripes; and dτ, summed over rows."""
    G: tl.constexpr = 3 if GRU else 4
    CELL: tl.constexpr = 5 * d if GRU else 4 * d  # position of u
    WIDTH: tl.constexpr = CELL + d
    ACROSS: tl.constexpr = (d + 63) // 64
    TILES: tl.constexpr = (G * d + 63) // 64 * ACROSS
    STRIPES: tl.constexpr = (d + 15) // 16
    program = tl.program_id(0)
    j = tl.arange(0, 16)
    if program < TILES:
        n = program // ACROSS * 64 + tl.arange(0, 64)
        m = program % ACROSS * 64 + tl.arange(0, 64)
        column = n
        if GRU:
            column = n + tl.where(n < 2 * d, 0, d)  # n reads r ⊙ (U α): its gradient follows that of the input
        dU = tl.load(
            sums + j[None, :] * WIDTH + column[:, None], mask=(j < K)[None, :] & (n < G * d)[:, None], other=0.0
        )
        S = tl.load(states + j[:, None] * d + m[None, :], mask=(j < K)[:, None] & (m < d)[None, :], other=0.0)
        product = tl.dot(dU, S, input_precision="ieee")
        tl.store(of_weight + n[:, None] * d + m[None, :], product, mask=(n < G * d)[:, None] & (m < d)[None, :])
        if program % ACROSS == 0:
            opening = tl.load(sums + (2 * K + 1) * WIDTH + column, mask=n < G * d, other=0.0)
            tl.store(of_bias + n, opening + tl.sum(dU, 1), mask=n < G * d)
    elif program < TILES + STRIPES:
        m = (program - TILES) * 16 + tl.arange(0, 16)
        on = (j < K)[:, None] & (m < d)[None, :]
        total = tl.load(sums + (K + j)[:, None] * WIDTH + CELL + m[None, :], mask=on, other=0.0)
        if GRU:
            total += tl.load(sums + j[:, None] * WIDTH + 4 * d + m[None, :], mask=on, other=0.0)
        for begin in range(0, G * d, 64):
            n = begin + tl.arange(0, 64)
            column = n
            if GRU:
                column = n + tl.where(n < 2 * d, 0, d)
            dU = tl.load(
                sums + j[:, None] * WIDTH + column[None, :], mask=(j < K)[:, None] & (n < G * d)[None, :], other=0.0
            )
            W = tl.load(weight + n[:, None] * d + m[None, :], mask=(n < G * d)[:, None] & (m < d)[None, :], other=0.0)
            total = tl.dot(dU, W, total, input_precision="ieee")
        tl.store(of_states + j[:, None] * d + m[None, :], total, mask=on)
    else:
        grad_tau = tl.zeros([1024], tl.float32)
        for begin in range(0, rows, 1024):
            row = begin + tl.arange(0, 1024)
            grad_tau += tl.load(by_row + row, mask=row < rows, other=0.0)
        tl.store(of_temperature, tl.sum(grad_tau, 0))
