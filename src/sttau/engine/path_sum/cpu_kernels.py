"""Numba kernels of the path sum; ``cpu.py`` calls them. All arrays are flat."""

from __future__ import annotations

from sttau.engine.simd import (
    BYTES,
    Array,
    fma,
    get,
    kernel,
    load_some,
    put,
    sigmoid,
    spread_at,
    store_some,
    tanh,
    total,
    zeros,
)


@kernel
def gates_forward(
    x: Array, recurrent: Array, hidden: Array, u: Array, rows: int, d: int, low: int, high: int
) -> None:  # fmt: skip
    """The output of a GRU for inputs low … high, from every hidden state."""
    lanes = BYTES // x.itemsize
    for n in range(low, high):
        for i in range(rows):
            for place in range(0, d, lanes):
                count, at, own = min(lanes, d - place), n * 3 * d + place, i * 3 * d + place
                r = sigmoid(load_some(x, at, count) + load_some(recurrent, own, count))
                z = sigmoid(load_some(x, at + d, count) + load_some(recurrent, own + d, count))
                c = tanh(fma(r, load_some(recurrent, own + 2 * d, count), load_some(x, at + 2 * d, count)))
                h = load_some(hidden, i * d + place, count)
                store_some(u, (n * rows + i) * d + place, fma(z, h - c, c), count)


@kernel
def gates_backward(
    x: Array, recurrent: Array, hidden: Array, grad: Array, grad_x: Array, grad_recurrent: Array, grad_hidden: Array,
    rows: int, d: int, low: int, high: int
) -> None:  # fmt: skip
    """Gradients for inputs low … high; they are added to ``grad_x``, ``grad_recurrent`` and ``grad_hidden``."""
    lanes = BYTES // x.itemsize
    for n in range(low, high):
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
                du = load_some(grad, (n * rows + i) * d + place, count)
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
    matrices: Array, lengths: Array, pi: Array, sums: Array, steps: int, k: int, low: int, high: int
) -> None:  # fmt: skip
    """π_t = π_{t-1} A_t, normalized, for sequences low … high; ``sums`` are those before the normalization."""
    lanes = BYTES // matrices.itemsize
    for t in range(steps):
        for b in range(low, high):  # independent of each other, so that the processor overlaps them
            before, after, a = (b * (steps + 1) + t) * k, (b * (steps + 1) + t + 1) * k, (b * steps + t) * k * k
            if lengths.size > 0 and t + 1 >= lengths[b]:
                for j in range(k):
                    put(pi, after + j, get(pi, before + j))
                continue
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
    matrices: Array, pi: Array, grad: Array, lengths: Array, sums: Array, grad_first: Array, grad_matrices: Array,
    buffer: Array, steps: int, k: int, low: int, high: int
) -> None:  # fmt: skip
    """Gradients of sequences low … high; ``buffer`` holds those of π_t and of its value before the normalization."""
    lanes, delta_at = BYTES // matrices.itemsize, (high - low) * k
    for b in range(low, high):
        for j in range(k):
            put(buffer, (b - low) * k + j, get(grad, (b * (steps + 1) + steps) * k + j))
    for step in range(steps):
        t = steps - 1 - step
        for b in range(low, high):
            before, after, a = (b * (steps + 1) + t) * k, (b * (steps + 1) + t + 1) * k, (b * steps + t) * k * k
            own = (b - low) * k
            if lengths.size > 0 and t + 1 >= lengths[b]:
                for place in range(0, k * k, lanes):
                    store_some(grad_matrices, a + place, zeros(matrices), min(lanes, k * k - place))
                for j in range(k):
                    put(buffer, own + j, get(buffer, own + j) + get(grad, before + j))
                continue
            inner = zeros(matrices)
            for place in range(0, k, lanes):
                count = min(lanes, k - place)
                inner = fma(load_some(buffer, own + place, count), load_some(pi, after + place, count), inner)
            mean, size = total(inner), get(sums, b * steps + t)
            for place in range(0, k, lanes):
                count = min(lanes, k - place)
                store_some(buffer, delta_at + place, (load_some(buffer, own + place, count) - mean) / size, count)
            for i in range(k):
                passed = zeros(matrices)
                for place in range(0, k, lanes):
                    count, at = min(lanes, k - place), a + i * k + place
                    delta = load_some(buffer, delta_at + place, count)
                    store_some(grad_matrices, at, spread_at(pi, before + i) * delta, count)
                    passed = fma(load_some(matrices, at, count), delta, passed)
                put(buffer, own + i, get(grad, before + i) + total(passed))
    for b in range(low, high):
        for j in range(k):
            put(grad_first, b * k + j, get(buffer, (b - low) * k + j))
