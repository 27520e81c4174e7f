"""Numba kernels of the path sum; ``cpu.py`` calls them. All arrays are flat."""

from __future__ import annotations

from sttau.engine.simd import (
    BYTES,
    Array,
    exp,
    fma,
    get,
    kernel,
    larger,
    largest,
    load,
    load_some,
    put,
    sigmoid,
    spread_at,
    store,
    store_some,
    tanh,
    total,
    zeros,
)


@kernel
def rows_forward(
    x: Array, recurrent: Array, hidden: Array, states: Array, mask: Array, u: Array, logits: Array, rows_out: Array,
    rows: int, d: int, k: int, low: int, high: int
) -> None:  # fmt: skip
    """softmax(S u) for inputs low … high, where u is the output of a GRU for the input and each hidden state.

    ``states`` is Sᵀ, (d, width), where width is k rounded up to whole vectors; ``mask``, (width,), is 0 for the k
    states and a large negative number beyond them. ``u`` (d values) and ``logits`` (width values) are buffers.
    """
    lanes, width = BYTES // x.itemsize, mask.size
    for n in range(low, high):
        for i in range(rows):
            for place in range(0, d, lanes):
                count, at, own = min(lanes, d - place), n * 3 * d + place, i * 3 * d + place
                r = sigmoid(load_some(x, at, count) + load_some(recurrent, own, count))
                z = sigmoid(load_some(x, at + d, count) + load_some(recurrent, own + d, count))
                c = tanh(fma(r, load_some(recurrent, own + 2 * d, count), load_some(x, at + 2 * d, count)))
                h = load_some(hidden, i * d + place, count)
                store_some(u, place, fma(z, h - c, c), count)
            top = load(mask, 0)
            for part in range(0, width, lanes):
                one, two, three, four = load(mask, part), zeros(x), zeros(x), zeros(x)
                whole = d - d % 4
                for m in range(0, whole, 4):  # four sums, which do not wait for each other
                    one = fma(spread_at(u, m), load(states, m * width + part), one)
                    two = fma(spread_at(u, m + 1), load(states, (m + 1) * width + part), two)
                    three = fma(spread_at(u, m + 2), load(states, (m + 2) * width + part), three)
                    four = fma(spread_at(u, m + 3), load(states, (m + 3) * width + part), four)
                for m in range(whole, d):
                    one = fma(spread_at(u, m), load(states, m * width + part), one)
                value = (one + two) + (three + four)
                store(logits, part, value)
                top = value if part == 0 else larger(top, value)
            most, sums = largest(top), zeros(x)
            for part in range(0, width, lanes):
                value = exp(load(logits, part) - most)
                store(logits, part, value)
                sums = sums + value
            size = total(sums)
            for part in range(0, k, lanes):
                store_some(rows_out, (n * rows + i) * k + part, load(logits, part) / size, min(lanes, k - part))


@kernel
def rows_backward(
    x: Array, recurrent: Array, hidden: Array, states: Array, rows_out: Array, grad: Array, slopes: Array,
    grad_x: Array, grad_recurrent: Array, grad_hidden: Array, grad_states: Array,
    rows: int, d: int, k: int, low: int, high: int
) -> None:  # fmt: skip
    """Gradients for inputs low … high; they are written to ``grad_x`` and added to the others.

    ``states`` is S, (k, d). ``slopes``, a buffer of rows · k values, takes the gradients of the logits.
    """
    lanes = BYTES // x.itemsize
    for n in range(low, high):
        for i in range(rows):
            at, inner = (n * rows + i) * k, zeros(x)
            for part in range(0, k, lanes):
                count = min(lanes, k - part)
                inner = fma(load_some(rows_out, at + part, count), load_some(grad, at + part, count), inner)
            mean = total(inner)
            for part in range(0, k, lanes):
                count = min(lanes, k - part)
                value = load_some(rows_out, at + part, count) * (load_some(grad, at + part, count) - mean)
                store_some(slopes, i * k + part, value, count)
        for place in range(0, d, lanes):
            count, at = min(lanes, d - place), n * 3 * d + place
            x_r, x_z, x_n = load_some(x, at, count), load_some(x, at + d, count), load_some(x, at + 2 * d, count)
            sum_r = sum_z = sum_n = zeros(x)
            for i in range(rows):
                own, state = i * 3 * d + place, i * d + place
                h_n, h = load_some(recurrent, own + 2 * d, count), load_some(hidden, state, count)
                r = sigmoid(x_r + load_some(recurrent, own, count))
                z = sigmoid(x_z + load_some(recurrent, own + d, count))
                c = tanh(fma(r, h_n, x_n))
                u, du = fma(z, h - c, c), zeros(x)
                for j in range(k):
                    slope, of_state = spread_at(slopes, i * k + j), j * d + place
                    du = fma(slope, load_some(states, of_state, count), du)
                    store_some(grad_states, of_state, fma(slope, u, load_some(grad_states, of_state, count)), count)
                dz = du * (h - c) * (z - z * z)
                dn = du * (1.0 - z) * (1.0 - c * c)
                dr = dn * h_n * (r - r * r)
                sum_r, sum_z, sum_n = sum_r + dr, sum_z + dz, sum_n + dn
                store_some(grad_recurrent, own, load_some(grad_recurrent, own, count) + dr, count)
                store_some(grad_recurrent, own + d, load_some(grad_recurrent, own + d, count) + dz, count)
                store_some(
                    grad_recurrent, own + 2 * d, fma(dn, r, load_some(grad_recurrent, own + 2 * d, count)), count
                )
                store_some(grad_hidden, state, fma(du, z, load_some(grad_hidden, state, count)), count)
            store_some(grad_x, at, sum_r, count)
            store_some(grad_x, at + d, sum_z, count)
            store_some(grad_x, at + 2 * d, sum_n, count)


@kernel
def chain_forward(
    matrices: Array, places: Array, lengths: Array, pi: Array, sums: Array, steps: int, k: int, low: int, high: int
) -> None:  # fmt: skip
    """π_t = π_{t-1} A_t, normalized, for sequences low … high; ``sums`` are those before the normalization.

    A_t is the matrix number ``places[b, t]``, or number t of sequence b where ``places`` is empty.
    """
    lanes = BYTES // matrices.itemsize
    for t in range(steps):
        for b in range(low, high):  # independent of each other, so that the processor overlaps them
            before, after = (b * (steps + 1) + t) * k, (b * (steps + 1) + t + 1) * k
            if lengths.size > 0 and t + 1 >= lengths[b]:
                for j in range(k):
                    put(pi, after + j, get(pi, before + j))
                continue
            a = (places[b * steps + t] if places.size > 0 else b * steps + t) * k * k
            whole = zeros(matrices)
            for place in range(0, k, lanes):
                count, value = min(lanes, k - place), zeros(matrices)
                for i in range(k):
                    value = fma(spread_at(pi, before + i), load_some(matrices, a + i * k + place, count), value)
                store_some(pi, after + place, value, count)
                whole = whole + value
            size = total(whole)
            put(sums, b * steps + t, size)
            for place in range(0, k, lanes):
                count = min(lanes, k - place)
                store_some(pi, after + place, load_some(pi, after + place, count) / size, count)


@kernel
def chain_backward(
    matrices: Array, places: Array, pi: Array, grad: Array, lengths: Array, sums: Array, grad_first: Array,
    deltas: Array, steps: int, k: int, low: int, high: int
) -> None:  # fmt: skip
    """Gradients of sequences low … high, for π_1 and, in ``deltas``, for π_{t-1} A_t before it is normalized.

    Here ``matrices`` are transposed.
    """
    lanes = BYTES // matrices.itemsize
    for b in range(low, high):  # grad_first holds the gradient for π_t
        for j in range(k):
            put(grad_first, b * k + j, get(grad, (b * (steps + 1) + steps) * k + j))
    for step in range(steps):
        t = steps - 1 - step
        for b in range(low, high):
            before, after = (b * (steps + 1) + t) * k, (b * (steps + 1) + t + 1) * k
            own, delta_at = b * k, (b * steps + t) * k
            if lengths.size > 0 and t + 1 >= lengths[b]:
                for place in range(0, k, lanes):
                    store_some(deltas, delta_at + place, zeros(matrices), min(lanes, k - place))
                for j in range(k):
                    put(grad_first, own + j, get(grad_first, own + j) + get(grad, before + j))
                continue
            a = (places[b * steps + t] if places.size > 0 else b * steps + t) * k * k
            inner = zeros(matrices)
            for place in range(0, k, lanes):
                count = min(lanes, k - place)
                inner = fma(load_some(grad_first, own + place, count), load_some(pi, after + place, count), inner)
            mean, size = total(inner), get(sums, b * steps + t)
            for place in range(0, k, lanes):
                count = min(lanes, k - place)
                store_some(deltas, delta_at + place, (load_some(grad_first, own + place, count) - mean) / size, count)
            for place in range(0, k, lanes):
                count = min(lanes, k - place)
                passed = load_some(grad, before + place, count)
                for j in range(k):
                    passed = fma(spread_at(deltas, delta_at + j), load_some(matrices, a + j * k + place, count), passed)
                store_some(grad_first, own + place, passed, count)


@kernel
def matrix_gradients(
    pi: Array, deltas: Array, order: Array, ends: Array, grad_matrices: Array, steps: int, k: int, low: int, high: int
) -> None:  # fmt: skip
    """Gradients of the matrices low … high: Σ π_{t-1}ᵀ δ_t over the steps at which a matrix is used.

    ``order`` has the numbers b · steps + t of all steps, sorted by their matrix; ``ends``, for each matrix, how many
    steps come before those of the next.
    """
    lanes = BYTES // pi.itemsize
    for n in range(low, high):
        start, end = ends[n - 1] if n > 0 else 0, ends[n]
        for i in range(k):
            for place in range(0, k, lanes):
                count, value = min(lanes, k - place), zeros(pi)
                for number in range(start, end):
                    at = order[number]
                    before = (at + at // steps) * k  # π has one step more
                    value = fma(spread_at(pi, before + i), load_some(deltas, at * k + place, count), value)
                store_some(grad_matrices, (n * k + i) * k + place, value, count)
