"""The kernels of the Triton engine: one program owns a row, and walks through its steps.

The *resident* kernels keep U (k × G·d) and S (k × d) in registers. They are written for each k anew: the K vectors of a
matrix are a tuple of K one-dimensional tensors, sums over states are unrolled, and α is a tuple of scalars, so that no
state is padded and nothing is exchanged between threads but the K sums over d. The *streamed* kernels hold any number
of states and read U and S from cache at every step. Where many rows have many states, a step is two matrix products,
with a kernel after each.

Kernels take what :class:`sttau.engine.factored.Problem` describes, for the steps t0 … t1 - 1. d is the hidden size and
D the next power of two; F is the number of features projected inside the kernel, or 0 where ``x`` is projected already.
READ says which u_t to return: 0 none, 1 the last, 2 all.
"""

from __future__ import annotations

import triton
import triton.language as tl

# What Triton would otherwise compile anew for: numbers that are 1 or divisible by 16, and addresses of the caller's.
_ANY_NUMBER = ["t", "t0", "t1", "time", "B", "rows", "x_stride", "start_stride", "first_stride"]
_ANY_ADDRESS = ["weight", "bias", "recurrent", "states", "temperature", "peephole", "start", "first", "lengths"]
_ANY_GRADIENT = [*_ANY_ADDRESS, "grad_alpha", "grad_output"]


# -- pieces of a step ------------------------------------------------------------------------------------------------


@triton.jit
def _tanh(x):
    return 2 * tl.sigmoid(2 * x) - 1


@triton.jit
def _sum2(p, i: tl.constexpr):
    return tl.split(tl.sum(tl.join(p[i], p[i + 1]), 0))


@triton.jit
def _sum4(p, i: tl.constexpr):
    low, high = tl.split(tl.sum(tl.join(tl.join(p[i], p[i + 1]), tl.join(p[i + 2], p[i + 3])), 0))
    a, b = tl.split(low)
    c, d = tl.split(high)
    return a, b, c, d


@triton.jit
def _sum8(p, i: tl.constexpr):
    left = tl.join(tl.join(p[i], p[i + 1]), tl.join(p[i + 2], p[i + 3]))
    right = tl.join(tl.join(p[i + 4], p[i + 5]), tl.join(p[i + 6], p[i + 7]))
    left, right = tl.split(tl.sum(tl.join(left, right), 0))
    a, b = tl.split(left)
    c, d = tl.split(right)
    a0, a1 = tl.split(a)
    b0, b1 = tl.split(b)
    c0, c1 = tl.split(c)
    d0, d1 = tl.split(d)
    return a0, a1, b0, b1, c0, c1, d0, d1


@triton.jit
def _sums(p, K: tl.constexpr):
    """The sums of K vectors as K scalars.

    Vectors are joined first, so that one exchange between threads serves up to eight of them; zeros fill the rest.
    """
    for _ in tl.static_range((8 - K % 8) % 8 if K % 8 > 4 else 4 - K % 8 if K % 8 == 3 else 0):
        p = p + (tl.zeros_like(p[0]),)
    sums = ()
    for i in tl.static_range(K // 8):
        sums = sums + _sum8(p, 8 * i)
    if K % 8 > 4:
        sums = sums + _sum8(p, K // 8 * 8)
    elif K % 8 > 2:
        sums = sums + _sum4(p, K // 8 * 8)
    elif K % 8 == 2:
        sums = sums + _sum2(p, K // 8 * 8)
    elif K % 8 == 1:
        sums = sums + (tl.sum(p[K - 1], 0),)
    kept = ()
    for j in tl.static_range(K):
        kept = kept + (sums[j],)
    return kept


@triton.jit
def _mix(weight, vectors, first: tl.constexpr, stride: tl.constexpr, K: tl.constexpr):
    """Σ_j weight_j · vectors[first + j · stride]"""
    total = weight[0] * vectors[first]
    for j in tl.static_range(1, K):
        total += weight[j] * vectors[first + j * stride]
    return total


@triton.jit
def _load_rows(pointer, columns, on, K: tl.constexpr, G: tl.constexpr, d):
    """K · G vectors of a (K, G · d) matrix, gates of a state beside each other."""
    rows = ()
    for i in tl.static_range(K * G):
        rows = rows + (tl.load(pointer + i * d + columns, mask=on, other=0.0),)
    return rows


@triton.jit
def _load_scalars(pointer, K: tl.constexpr):
    values = ()
    for j in tl.static_range(K):
        values = values + (tl.load(pointer + j),)
    return values


@triton.jit
def _no_scalars(K: tl.constexpr):
    values = ()
    for j in tl.static_range(K):
        values = values + (0.0,)
    return values


@triton.jit
def _load_gradient(pointer, place, K: tl.constexpr):
    """Of α at one step; zeros where nothing outside reads α."""
    if pointer is None:
        return _no_scalars(K)
    else:
        return _load_scalars(pointer + place * K, K)


@triton.jit
def _load_old(pointer, goes_on, K: tl.constexpr):
    """α of the step read before; nothing before the first."""
    values = ()
    for j in tl.static_range(K):
        values = values + (tl.load(pointer + j, mask=goes_on, other=0.0),)
    return values


@triton.jit
def _load_gates(pointer, columns, on, G: tl.constexpr, d):
    values = ()
    for g in tl.static_range(G):
        values = values + (tl.load(pointer + g * d + columns, mask=on, other=0.0).to(tl.float32),)
    return values


@triton.jit
def _nothing(like, G: tl.constexpr):
    zeros = ()
    for g in tl.static_range(G):
        zeros = zeros + (tl.zeros_like(like[g]),)
    return zeros


@triton.jit
def _gates(xs, h, c, old, peep, GRU: tl.constexpr, PEEPHOLE: tl.constexpr):
    """u and the new c of a step; ``old`` is the h_{t-1} of a GRU."""
    if GRU:
        z = tl.sigmoid(xs[1] + h[1])
        n = _tanh(xs[2] + tl.sigmoid(xs[0] + h[0]) * h[2])
        u = n + z * (old - n)
    else:
        i = xs[0] + h[0]
        f = xs[1] + h[1]
        o = xs[3] + h[3]
        if PEEPHOLE:
            i += peep[0] * c
            f += peep[1] * c
        c = tl.sigmoid(f) * c + tl.sigmoid(i) * _tanh(xs[2] + h[2])
        if PEEPHOLE:
            o += peep[2] * c
        u = tl.sigmoid(o) * _tanh(c)
    return u, c


@triton.jit
def _length(lengths, sequence, time):
    """Valid steps of a sequence; all of them where no lengths are given."""
    if lengths is None:
        return tl.cast(time, tl.int64)
    else:
        return tl.load(lengths + sequence)


@triton.jit
def _fetch(x, place, columns, on, G: tl.constexpr, d: tl.constexpr, stride, F: tl.constexpr):
    """Ask for a step's input: G projected vectors, or F plain numbers."""
    if F == 0:
        return _load_gates(x + place * stride, columns, on, G, d)
    else:
        values = ()
        for f in tl.static_range(F):
            values = values + (tl.load(x + place * F + f).to(tl.float32),)
        return values


@triton.jit
def _project(fetched, W, b, G: tl.constexpr, F: tl.constexpr):
    """The projected input, made here from a few numbers."""
    if F == 0:
        return fetched
    else:
        values = ()
        for g in tl.static_range(G):
            value = b[g]
            for f in tl.static_range(F):
                value += fetched[f] * W[g * F + f]
            values = values + (value,)
        return values


@triton.jit
def _load_projection(weight, bias, columns, on, G: tl.constexpr, d: tl.constexpr, F: tl.constexpr):
    """W_x by columns and the bias, for inputs of F numbers."""
    W = ()
    b = ()
    for g in tl.static_range(G):
        for f in tl.static_range(F):
            W = W + (tl.load(weight + (g * d + columns) * F + f, mask=on, other=0.0).to(tl.float32),)
        if bias is None:
            b = b + (tl.zeros_like(columns).to(tl.float32),)
        else:
            b = b + (tl.load(bias + g * d + columns, mask=on, other=0.0).to(tl.float32),)
    return W, b


@triton.jit(do_not_specialize=["rows"], do_not_specialize_on_alignment=["states", "weight"])
def through_weight(
    sums, states, weight, by_row, of_weight, of_bias, of_states, of_temperature, rows,
    d: tl.constexpr, K: tl.constexpr, GRU: tl.constexpr,
):  # fmt: skip
    """From dU, at the head of ``sums``, to W_h = dUᵀ S and b_h in tiles; dS in stripes; and dτ, summed over rows."""
    G: tl.constexpr = 3 if GRU else 4
    CELL: tl.constexpr = 5 * d if GRU else 4 * d  # where u stands
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
            column = n + tl.where(n < 2 * d, 0, d)  # n reads r ⊙ (U α): its gradient stands behind that of the input
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
        warmth = tl.zeros([1024], tl.float32)
        for begin in range(0, rows, 1024):
            row = begin + tl.arange(0, 1024)
            warmth += tl.load(by_row + row, mask=row < rows, other=0.0)
        tl.store(of_temperature, tl.sum(warmth, 0))


# -- resident: few states, unrolled, in registers --------------------------------------------------------------------


@triton.jit(do_not_specialize=_ANY_NUMBER, do_not_specialize_on_alignment=_ANY_ADDRESS)
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
    length = _length(lengths, sequence, time)
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
        U = _load_rows(recurrent, columns, on, K, G, d)
        S = _load_rows(states, columns, on, K, 1, d)
        W, b = _load_projection(weight, bias, columns, on, G, d, F)
        peep = ()
        if PEEPHOLE:
            peep = _load_gates(peephole, columns, on, 3, d)
        begins = (t == length - 1) if REVERSE else (t == 0)
        goes_on = (t != length - 1) if REVERSE else (t != 0)
        fetched = _fetch(x, (t - t0) * B + sequence, columns, on, G, d, x_stride, F)
        a = _load_old(alpha + ((t - move) * rows + row) * K, goes_on, K)  # the end of the chunk before, or nowhere yet
        opening = _load_gates(start + row * start_stride, columns, columns < tl.where(begins, d, 0), G, d)
        if GRU:
            c = tl.load(first + row * first_stride + columns, mask=columns < tl.where(begins, d, 0), other=0.0)  # h_0
        else:
            c = tl.load(last + row * d + columns, mask=on, other=0.0)
            if begins:
                c = tl.load(first + row * first_stride + columns, mask=on, other=0.0)

        for _ in range(steps):
            place = t * rows + row
            ahead = tl.minimum(tl.maximum(t + move, t0), t1 - 1)  # what a step reads is loaded a step before
            following = _fetch(x, (ahead - t0) * B + sequence, columns, on, G, d, x_stride, F)
            xs = _project(fetched, W, b, G, F)
            if not QUIET:
                gumbel = _load_scalars(alpha + place * K, K)
            h = ()
            for g in tl.static_range(G):
                h = h + (opening[g] + _mix(a, U, g, G, K),)
            if GRU:
                u, _ = _gates(xs, h, c, c + _mix(a, S, 0, 1, K), peep, GRU, PEEPHOLE)
                c = tl.zeros_like(c)
            else:
                u, c = _gates(xs, h, c, c, peep, GRU, PEEPHOLE)
                if KEEP:
                    tl.store(memory + place * d + columns, c, mask=on)
            p = ()
            for j in tl.static_range(K):
                p = p + (S[j] * u,)
            raw = _sums(p, K)
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
            opening = _nothing(opening, G)
            t += move
        if not GRU:
            tl.store(last + row * d + columns, c, mask=on)


@triton.jit(do_not_specialize=_ANY_NUMBER, do_not_specialize_on_alignment=_ANY_GRADIENT)
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
    BLOCKS: tl.constexpr = 6 if GRU else 5  # of d numbers, in a row of ``wide``
    row = tl.program_id(0).to(tl.int64)
    sequence = row % B
    length = _length(lengths, sequence, time)
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
        U = _load_rows(recurrent, columns, on, K, G, d)
        S = _load_rows(states, columns, on, K, 1, d)
        W, b = _load_projection(weight, bias, columns, on, G, d, F)
        if PEEPHOLE:
            peep = _load_gates(peephole, columns, on, 3, d)
        opening = _load_gates(start + row * start_stride, columns, on, G, d)
        origin = tl.load(first + row * first_stride + columns, mask=on, other=0.0)
        if CARRY:
            da = _load_scalars(carry_alpha + row * K, K)
            warmth = tl.load(grad_temperature + row)
        else:
            da = _no_scalars(K)
            warmth = 0.0
        if PEEPHOLE:
            own = grad_peephole + row * 3 * d
            seen = _load_gates(own, columns, on if CARRY else columns < 0, 3, d)
        a = _load_scalars(alpha + (t * rows + row) * K, K)
        if not GRU:
            c = tl.load(memory + (t * rows + row) * d + columns, mask=on, other=0.0)
            if carry_memory is None:
                dc = tl.zeros([D], tl.float32)
            else:
                dc = tl.load(carry_memory + row * d + columns, mask=on, other=0.0)
        # Everything a step reads is loaded one step ahead: here for the first.
        goes_on = (t != length - 1) if REVERSE else (t != 0)
        place = t * rows + row
        fetched = _fetch(x, (t - t0) * B + sequence, columns, on, G, d, x_stride, F)
        old = _load_old(alpha + (place + move * rows) * K, goes_on, K)
        outer = _load_gradient(grad_alpha, place, K)
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
            following = _fetch(x, (ahead - t0) * B + sequence, columns, on, G, d, x_stride, F)
            xs = _project(fetched, W, b, G, F)
            next_old = _load_old(alpha + (there + move * rows) * K, goes_on, K)
            next_outer = _load_gradient(grad_alpha, there, K)
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
                s = _load_scalars(soft + place * K, K)
            else:
                s = a

            # What the forward pass knew: off the serial path, because α is kept.
            if GRU:
                r = tl.sigmoid(xs[0] + _mix(old, U, 0, 3, K) + tl.where(begins, opening[0], 0.0))
                z = tl.sigmoid(xs[1] + _mix(old, U, 1, 3, K) + tl.where(begins, opening[1], 0.0))
                m = _mix(old, U, 2, 3, K) + tl.where(begins, opening[2], 0.0)
                n = _tanh(xs[2] + r * m)
                h = _mix(old, S, 0, 1, K) + tl.where(begins, origin, 0.0)
                u = n + z * (h - n)
            else:
                i = xs[0] + _mix(old, U, 0, 4, K) + tl.where(begins, opening[0], 0.0)
                f = xs[1] + _mix(old, U, 1, 4, K) + tl.where(begins, opening[1], 0.0)
                g = _tanh(xs[2] + _mix(old, U, 2, 4, K) + tl.where(begins, opening[2], 0.0))
                o = xs[3] + _mix(old, U, 3, 4, K) + tl.where(begins, opening[3], 0.0)
                if PEEPHOLE:
                    i += peep[0] * was
                    f += peep[1] * was
                    o += peep[2] * c
                i = tl.sigmoid(i)
                f = tl.sigmoid(f)
                o = tl.sigmoid(o)
                y = _tanh(c)
                u = o * y

            dot = s[0] * (da[0] + outer[0])
            for j in tl.static_range(1, K):
                dot += s[j] * (da[j] + outer[j])
            dl = ()
            into = coefficients + place * (2 * K + 2 + F)
            for j in tl.static_range(K):
                dl = dl + (s[j] * (da[j] + outer[j] - dot) * inverse,)
                warmth -= dl[j] * tl.log(tl.maximum(s[j], 1e-37))  # where α is 0, so is its gradient
                tl.store(into + j, old[j])
                tl.store(into + K + j, dl[j])
            tl.store(into + 2 * K, 1.0)
            tl.store(into + 2 * K + 1, tl.where(begins, 1.0, 0.0))
            for number in tl.static_range(F):
                tl.store(into + 2 * K + 2 + number, fetched[number])
            du += _mix(dl, S, 0, 1, K)

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
            da = _sums(p, K)
            a = old
            old = next_old
            outer = next_outer
            fetched = following
            if READ == 2:
                du = next_du
            t += move
        for j in tl.static_range(K):
            tl.store(carry_alpha + row * K + j, da[j])
        tl.store(grad_temperature + row, warmth)
        if PEEPHOLE:
            for gate in tl.static_range(3):
                tl.store(own + gate * d + columns, seen[gate], mask=on)
        if not GRU:
            if grad_first is not None:
                tl.store(grad_first + row * d + columns, dc, mask=on)


# -- streamed: any number of states, read from cache at every step ---------------------------------------------------
#
# What takes time here is waiting for U and S. So many loads are under way at once: N states of each gate; tiles of KB
# states.


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
            values = values + _load_gates(matrix + j * (G * d), columns, columns < tl.where(j < K, d, 0), G, d)
        tl.debug_barrier()  # so that all of these are under way before anything waits for one
        for i in tl.static_range(N):
            j = tl.cast(block, tl.int32) + i
            weight = tl.load(coefficients + j, mask=j < K, other=0.0)
            mixed = ()
            for g in tl.static_range(G):
                mixed = mixed + (total[g] + weight * values[i * G + g],)
            total = mixed
    return total


@triton.jit
def _choose(here, soft, inverse, number, K: tl.constexpr, KP: tl.constexpr, HARD: tl.constexpr, KEEP: tl.constexpr):
    """α from logits, in their place; ``inverse`` is 1 / τ."""
    l = tl.load(here + number, mask=number < K, other=float("-inf")) * inverse
    top = tl.max(l, 0)
    e = tl.exp(l - top)
    a = e / tl.sum(e, 0)
    if HARD:
        if KEEP:
            tl.store(soft + number, a, mask=number < K)
        winner = tl.min(tl.where(l == top, number, KP), 0)
        a = (number == winner).to(tl.float32)
    tl.debug_barrier()  # all have read what is overwritten
    tl.store(here + number, a, mask=number < K)


@triton.jit(do_not_specialize=_ANY_NUMBER, do_not_specialize_on_alignment=_ANY_ADDRESS)
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
    length = _length(lengths, sequence, time)
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
        number = tl.arange(0, KP)
        inverse = 1 / tl.load(temperature)
        peep = ()
        if PEEPHOLE:
            peep = _load_gates(peephole, columns, on, 3, d)
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
            # The first step reads ``start`` in place of U, with nothing to mix.
            if begins:
                h = _load_gates(start + row * start_stride, columns, on, G, d)
                if GRU:
                    old = tl.load(first + row * first_stride + columns, mask=on, other=0.0)
            else:
                before = alpha + (place - move * rows) * K
                h = _mix_streamed(before, recurrent, columns, d, G, K, D, N)
                if GRU:
                    old = _mix_streamed(before, states, columns, d, 1, K, D, G * N)[0]
            xs = _load_gates(x + ((t - t0) * B + sequence) * x_stride, columns, on, G, d)
            u, c = _gates(xs, h, c, old, peep, GRU, PEEPHOLE)
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
            _choose(here, soft + place * K, inverse, number, K, KP, HARD, KEEP)
            if READ == 2:
                tl.store(output + place * d + columns, u.to(output.dtype.element_ty), mask=on)
            elif READ == 1:
                if (t == 0) if REVERSE else (t == length - 1):
                    tl.store(output + row * d + columns, u.to(output.dtype.element_ty), mask=on)
            tl.debug_barrier()
            t += move
        if not GRU:
            tl.store(last + row * d + columns, c, mask=on)


# -- many rows of many states: matrix products, and between them these two -------------------------------------------


@triton.jit(do_not_specialize=_ANY_NUMBER, do_not_specialize_on_alignment=_ANY_ADDRESS)
def gates_of_step(
    x, h, old, peephole, start, first, lengths, u, output, memory, last,
    t, t0, time, B, rows, x_stride, start_stride, first_stride,
    d: tl.constexpr, D: tl.constexpr, GRU: tl.constexpr, REVERSE: tl.constexpr, READ: tl.constexpr,
    PEEPHOLE: tl.constexpr, KEEP: tl.constexpr,
):  # fmt: skip
    """u of step t, from h = Uᵀ α_{t-1}, (rows, G · d), and ``old``, Sᵀ α_{t-1} for a GRU."""
    G: tl.constexpr = 3 if GRU else 4
    row = tl.program_id(0).to(tl.int64)
    sequence = row % B
    t = tl.cast(t, tl.int64)
    length = _length(lengths, sequence, time)
    if t < length:
        columns = tl.arange(0, D)
        on = columns < d
        begins = (t == length - 1) if REVERSE else (t == 0)
        peep = ()
        if PEEPHOLE:
            peep = _load_gates(peephole, columns, on, 3, d)
        xs = _load_gates(x + ((t - t0) * B + sequence) * x_stride, columns, on, G, d)
        c = tl.zeros([D], tl.float32)
        previous = tl.zeros([D], tl.float32)
        if begins:
            own = _load_gates(start + row * start_stride, columns, on, G, d)
            given = tl.load(first + row * first_stride + columns, mask=on, other=0.0)
            if GRU:
                previous = given
            else:
                c = given
        else:
            own = _load_gates(h + row * G * d, columns, on, G, d)
            if GRU:
                previous = tl.load(old + row * d + columns, mask=on, other=0.0)
            else:
                c = tl.load(last + row * d + columns, mask=on, other=0.0)
        new, c = _gates(xs, own, c, previous, peep, GRU, PEEPHOLE)
        tl.store(u + row * d + columns, new, mask=on)
        if not GRU:
            tl.store(last + row * d + columns, c, mask=on)
            if KEEP:
                tl.store(memory + (t * rows + row) * d + columns, c, mask=on)
        if READ == 2:
            tl.store(output + (t * rows + row) * d + columns, new.to(output.dtype.element_ty), mask=on)
        elif READ == 1:
            if (t == 0) if REVERSE else (t == length - 1):
                tl.store(output + row * d + columns, new.to(output.dtype.element_ty), mask=on)


@triton.jit(do_not_specialize=["t", "rows"], do_not_specialize_on_alignment=["alpha", "soft", "temperature"])
def states_of_step(
    alpha, soft, temperature, t, rows, K: tl.constexpr, KP: tl.constexpr, HARD: tl.constexpr, KEEP: tl.constexpr
):  # fmt: skip
    """α of step t from its logits, noise and all, in their place."""
    place = (tl.cast(t, tl.int64) * rows + tl.program_id(0)) * K
    _choose(alpha + place, soft + place, 1 / tl.load(temperature), tl.arange(0, KP), K, KP, HARD, KEEP)


@triton.jit(do_not_specialize=_ANY_NUMBER, do_not_specialize_on_alignment=_ANY_GRADIENT)
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
    BLOCKS: tl.constexpr = 6 if GRU else 5  # of d numbers, in a row of ``wide``
    row = tl.program_id(0).to(tl.int64)
    sequence = row % B
    length = _length(lengths, sequence, time)
    columns = tl.arange(0, D)
    on = columns < d
    number = tl.arange(0, KP)
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
            peep = _load_gates(peephole, columns, on, 3, d)
            own = grad_peephole + row * 3 * d
            seen = _load_gates(own, columns, on if CARRY else columns < 0, 3, d)
        c = tl.zeros([D], tl.float32)
        dc = tl.zeros([D], tl.float32)
        if not GRU:
            c = tl.load(memory + (t * rows + row) * d + columns, mask=on, other=0.0)
            if carry_memory is not None:
                dc = tl.load(carry_memory + row * d + columns, mask=on, other=0.0)
        if CARRY:
            warmth = tl.load(grad_temperature + row)
        else:
            warmth = 0.0
        for _ in range(steps):
            place = t * rows + row
            begins = (t == length - 1) if REVERSE else (t == 0)
            before = place + move * rows
            xs = _load_gates(x + ((t - t0) * B + sequence) * x_stride, columns, on, G, d)
            if begins:
                h = _load_gates(start + row * start_stride, columns, on, G, d)
                old = tl.load(first + row * first_stride + columns, mask=on, other=0.0)
            else:
                h = _mix_streamed(alpha + before * K, recurrent, columns, d, G, K, D, N)
                if GRU:
                    old = _mix_streamed(alpha + before * K, states, columns, d, 1, K, D, G * N)[0]
                else:
                    old = tl.load(memory + before * d + columns, mask=on, other=0.0)

            if HARD:
                s = tl.load(soft + place * K + number, mask=number < K, other=0.0)
            else:
                s = tl.load(alpha + place * K + number, mask=number < K, other=0.0)
            da = tl.load(carry_alpha + row * K + number, mask=number < K, other=0.0)
            if grad_alpha is not None:
                da += tl.load(grad_alpha + place * K + number, mask=number < K, other=0.0)
            dl = s * (da - tl.sum(s * da, 0)) * inverse
            warmth -= tl.sum(dl * tl.log(tl.maximum(s, 1e-37)), 0)
            into = coefficients + place * (2 * K + 2)
            back = tl.load(alpha + before * K + number, mask=number < tl.where(begins, 0, K), other=0.0)
            tl.store(into + number, back, mask=number < K)
            tl.store(into + K + number, dl, mask=number < K)
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
                n = _tanh(xs[2] + r * h[2])
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
                g = _tanh(xs[2] + h[2])
                o = xs[3] + h[3]
                if PEEPHOLE:
                    i += peep[0] * old
                    f += peep[1] * old
                    o += peep[2] * c
                i = tl.sigmoid(i)
                f = tl.sigmoid(f)
                o = tl.sigmoid(o)
                y = _tanh(c)
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
        tl.store(grad_temperature + row, warmth)
        if PEEPHOLE:
            for gate in tl.static_range(3):
                tl.store(own + gate * d + columns, seen[gate], mask=on)
        if not GRU:
            if grad_first is not None:
                tl.store(grad_first + row * d + columns, dc, mask=on)
