"""Kernels for any number of states, which read U and S from the cache at every step.

The time is spent waiting for U and S, so many loads are issued at once: N states of each gate; tiles of KB states.
"""

from __future__ import annotations

import triton
import triton.language as tl

from sttau.engine.recurrence.triton_common import (
    ANY_ADDRESS,
    ANY_GRADIENT,
    ANY_INTEGER,
    choose_states,
    gates,
    load_gates,
    tanh,
    valid_steps,
)


@triton.jit
def _mix_streamed(
    coefficients, matrix, columns, d: tl.constexpr, G: tl.constexpr, K: tl.constexpr, D: tl.constexpr, N: tl.constexpr
):  # fmt: skip
    """Σ_j coefficients_j · matrix[j], G vectors."""
    total = ()
    for g in tl.static_range(G):
        total = total + (tl.zeros([D], tl.float32),)
    for block in range(0, K, N):
        values = ()
        for i in tl.static_range(N):
            j = tl.cast(block, tl.int32) + i
            values = values + load_gates(matrix + j * (G * d), columns, columns < tl.where(j < K, d, 0), G, d)
        tl.debug_barrier()  # so that all loads are issued before any is waited for
        for i in tl.static_range(N):
            j = tl.cast(block, tl.int32) + i
            weight = tl.load(coefficients + j, mask=j < K, other=0.0)
            mixed = ()
            for g in tl.static_range(G):
                mixed = mixed + (total[g] + weight * values[i * G + g],)
            total = mixed
    return total


@triton.jit(do_not_specialize=ANY_INTEGER, do_not_specialize_on_alignment=ANY_ADDRESS)
def forward_streamed(
    x, weight, bias, recurrent, states, temperature, peephole, start, first, lengths,
    alpha, soft, output, memory, last,
    t0, t1, time, B, rows, x_stride, start_stride, first_stride,
    d: tl.constexpr, F: tl.constexpr, K: tl.constexpr, D: tl.constexpr, GRU: tl.constexpr, HARD: tl.constexpr,
    REVERSE: tl.constexpr, READ: tl.constexpr, PEEPHOLE: tl.constexpr, QUIET: tl.constexpr, KEEP: tl.constexpr,
    N: tl.constexpr, KB: tl.constexpr, KP: tl.constexpr,
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
        state = tl.arange(0, KP)
        inverse = 1 / tl.load(temperature)
        peep = ()
        if PEEPHOLE:
            peep = load_gates(peephole, columns, on, 3, d)
        c = tl.zeros([D], tl.float32)
        old = tl.zeros([D], tl.float32)
        if not GRU:
            c = tl.load(last + row * d + columns, mask=on, other=0.0)
            if (t == length - 1) if REVERSE else (t == 0):
                c = tl.load(first + row * first_stride + columns, mask=on, other=0.0)
        for _ in range(steps):
            place = t * rows + row
            begins = (t == length - 1) if REVERSE else (t == 0)
            here = alpha + place * K
            # The first step reads ``start`` instead of a mixture of U.
            if begins:
                h = load_gates(start + row * start_stride, columns, on, G, d)
                if GRU:
                    old = tl.load(first + row * first_stride + columns, mask=on, other=0.0)
            else:
                before = alpha + (place - move * rows) * K
                h = _mix_streamed(before, recurrent, columns, d, G, K, D, N)
                if GRU:
                    old = _mix_streamed(before, states, columns, d, 1, K, D, G * N)[0]
            xs = load_gates(x + ((t - t0) * B + sequence) * x_stride, columns, on, G, d)
            u, c = gates(xs, h, c, old, peep, GRU, PEEPHOLE)
            if KEEP and not GRU:
                tl.store(memory + place * d + columns, c, mask=on)
            for block in range(0, K, KB):
                j = block + tl.arange(0, KB)
                part = tl.load(
                    states + j[:, None] * d + columns[None, :], mask=(j < K)[:, None] & on[None, :], other=0.0
                )
                tl.debug_barrier()  # as above
                l = tl.sum(part * u[None, :], 1)
                if not QUIET:
                    l += tl.load(here + j, mask=j < K, other=0.0)
                tl.store(here + j, l, mask=j < K)
            tl.debug_barrier()  # what some threads wrote, others read
            choose_states(here, soft + place * K, inverse, state, K, KP, HARD, KEEP)
            if READ == 2:
                tl.store(output + place * d + columns, u.to(output.dtype.element_ty), mask=on)
            elif READ == 1:
                if (t == 0) if REVERSE else (t == length - 1):
                    tl.store(output + row * d + columns, u.to(output.dtype.element_ty), mask=on)
            tl.debug_barrier()
            t += move
        if not GRU:
            tl.store(last + row * d + columns, c, mask=on)


@triton.jit(do_not_specialize=ANY_INTEGER, do_not_specialize_on_alignment=ANY_GRADIENT)
def backward_streamed(
    x, weight, bias, recurrent, states, temperature, peephole, start, first, lengths,
    alpha, soft, memory,
    grad_alpha, grad_output, wide, coefficients, carry_alpha, carry_memory, grad_temperature, grad_peephole,
    grad_start, grad_first,
    t0, t1, time, B, rows, x_stride, start_stride, first_stride,
    d: tl.constexpr, F: tl.constexpr, K: tl.constexpr, D: tl.constexpr, GRU: tl.constexpr, HARD: tl.constexpr,
    REVERSE: tl.constexpr, READ: tl.constexpr, PEEPHOLE: tl.constexpr, CARRY: tl.constexpr,
    N: tl.constexpr, KB: tl.constexpr, KP: tl.constexpr,
):  # fmt: skip
    G: tl.constexpr = 3 if GRU else 4
    BLOCKS: tl.constexpr = 6 if GRU else 5  # blocks of d values in a row of ``wide``
    row = tl.program_id(0).to(tl.int64)
    sequence = row % B
    length = valid_steps(lengths, sequence, time)
    columns = tl.arange(0, D)
    on = columns < d
    state = tl.arange(0, KP)
    if REVERSE:
        t = tl.cast(t0, tl.int64)
        move = 1
    else:
        t = tl.minimum(length, t1) - 1
        move = -1
    steps = tl.minimum(length, t1) - t0
    if steps > 0:
        inverse = 1 / tl.load(temperature)
        if PEEPHOLE:
            peep = load_gates(peephole, columns, on, 3, d)
            own = grad_peephole + row * 3 * d
            seen = load_gates(own, columns, on if CARRY else columns < 0, 3, d)
        c = tl.zeros([D], tl.float32)
        dc = tl.zeros([D], tl.float32)
        if not GRU:
            c = tl.load(memory + (t * rows + row) * d + columns, mask=on, other=0.0)
            if carry_memory is not None:
                dc = tl.load(carry_memory + row * d + columns, mask=on, other=0.0)
        if CARRY:
            grad_tau = tl.load(grad_temperature + row)
        else:
            grad_tau = 0.0
        for _ in range(steps):
            place = t * rows + row
            begins = (t == length - 1) if REVERSE else (t == 0)
            before = place + move * rows
            xs = load_gates(x + ((t - t0) * B + sequence) * x_stride, columns, on, G, d)
            if begins:
                h = load_gates(start + row * start_stride, columns, on, G, d)
                old = tl.load(first + row * first_stride + columns, mask=on, other=0.0)
            else:
                h = _mix_streamed(alpha + before * K, recurrent, columns, d, G, K, D, N)
                if GRU:
                    old = _mix_streamed(alpha + before * K, states, columns, d, 1, K, D, G * N)[0]
                else:
                    old = tl.load(memory + before * d + columns, mask=on, other=0.0)

            if HARD:
                s = tl.load(soft + place * K + state, mask=state < K, other=0.0)
            else:
                s = tl.load(alpha + place * K + state, mask=state < K, other=0.0)
            da = tl.load(carry_alpha + row * K + state, mask=state < K, other=0.0)
            if grad_alpha is not None:
                da += tl.load(grad_alpha + place * K + state, mask=state < K, other=0.0)
            dl = s * (da - tl.sum(s * da, 0)) * inverse
            grad_tau -= tl.sum(dl * tl.log(tl.maximum(s, 1e-37)), 0)
            into = coefficients + place * (2 * K + 2)
            back = tl.load(alpha + before * K + state, mask=state < tl.where(begins, 0, K), other=0.0)
            tl.store(into + state, back, mask=state < K)
            tl.store(into + K + state, dl, mask=state < K)
            tl.store(into + 2 * K, 1.0)
            tl.store(into + 2 * K + 1, tl.where(begins, 1.0, 0.0))
            tl.debug_barrier()
            du = _mix_streamed(into + K, states, columns, d, 1, K, D, G * N)[0]
            if READ == 2:
                du += tl.load(grad_output + place * d + columns, mask=on, other=0.0).to(tl.float32)
            elif READ == 1:
                ends = (t == 0) if REVERSE else (t == length - 1)
                du += tl.load(grad_output + row * d + columns, mask=columns < tl.where(ends, d, 0), other=0.0).to(
                    tl.float32
                )

            out = wide + ((t - t0) * rows + row) * BLOCKS * d + columns
            opened = columns < tl.where(begins, d, 0)
            if GRU:
                r = tl.sigmoid(xs[0] + h[0])
                z = tl.sigmoid(xs[1] + h[1])
                n = tanh(xs[2] + r * h[2])
                dn = du * (1 - z) * (1 - n * n)
                dz = du * (old - n) * z * (1 - z)
                dr = dn * h[2] * r * (1 - r)
                dm = dn * r
                dh = du * z
                parts = (dr, dz, dm, dh)
                tl.store(out, dr, mask=on)
                tl.store(out + d, dz, mask=on)
                tl.store(out + 2 * d, dn, mask=on)
                tl.store(out + 3 * d, dm, mask=on)
                tl.store(out + 4 * d, dh, mask=on)
                tl.store(out + 5 * d, n + z * (old - n), mask=on)
                if grad_first is not None:
                    tl.store(grad_first + row * d + columns, dh, mask=opened)
            else:
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
                dc += du * o * (1 - y * y)
                if PEEPHOLE:
                    dc += do * peep[2]
                di = dc * g * i * (1 - i)
                df = dc * old * f * (1 - f)
                dg = dc * i * (1 - g * g)
                dc *= f
                if PEEPHOLE:
                    dc += di * peep[0] + df * peep[1]
                    seen = (seen[0] + di * old, seen[1] + df * old, seen[2] + do * c)
                parts = (di, df, dg, do)
                tl.store(out, di, mask=on)
                tl.store(out + d, df, mask=on)
                tl.store(out + 2 * d, dg, mask=on)
                tl.store(out + 3 * d, do, mask=on)
                tl.store(out + 4 * d, o * y, mask=on)
                c = old
            if grad_start is not None:
                for gate in tl.static_range(G):
                    tl.store(grad_start + (row * G + gate) * d + columns, parts[gate], mask=opened)
            for block in range(0, K, KB):
                j = block + tl.arange(0, KB)
                mask = (j < K)[:, None] & on[None, :]
                total = tl.zeros([KB, D], tl.float32)
                for gate in tl.static_range(G):
                    part = tl.load(recurrent + (j[:, None] * G + gate) * d + columns[None, :], mask=mask, other=0.0)
                    total += part * parts[gate][None, :]
                if GRU:
                    part = tl.load(states + j[:, None] * d + columns[None, :], mask=mask, other=0.0)
                    total += part * parts[3][None, :]
                tl.store(carry_alpha + row * K + j, tl.sum(total, 1), mask=j < K)
            tl.debug_barrier()
            t += move
        tl.store(grad_temperature + row, grad_tau)
        if PEEPHOLE:
            for gate in tl.static_range(3):
                tl.store(own + gate * d + columns, seen[gate], mask=on)
        if not GRU:
            if grad_first is not None:
                tl.store(grad_first + row * d + columns, dc, mask=on)
