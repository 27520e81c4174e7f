"""Numba kernels of the path sum; ``cpu.py`` calls them. All arrays are flat."""

from __future__ import annotations

from sttau.engine.simd import (
    BYTES,
    Array,
    device_function,
    exp,
    fma,
    get,
    kernel,
    larger,
    largest,
    load,
    load_some,
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
    zeros,
)


@device_function
def _project(x: Array, inputs: Array, begin: int, count: int, weights: Array, bias: Array) -> None:
    """W_x times inputs begin … begin + count, plus the bias: (count, 3 d). ``weights`` is W_xᵀ, (features, 3 d)."""
    wide, features = bias.size, weights.size // bias.size
    for place in range(0, wide, 3 * (BYTES // x.itemsize)):
        product3(
            x, strides(place, wide), bias, strides(place), inputs, strides(begin * features, features, 1), weights,
            strides(place, 0, wide), features, count
        )  # fmt: skip


@device_function
def _softmax(logits: Array, width: int, rows: int, out: Array, to: int, k: int) -> None:
    """Write the softmax of each row of ``logits``, (rows, width), to ``out``, (rows, k), from ``to`` on."""
    lanes = BYTES // logits.itemsize
    for row in range(rows):  # two short loops, so that the processor overlaps many rows
        top = load(logits, row * width)
        for part in range(lanes, width, lanes):
            top = larger(top, load(logits, row * width + part))
        most = largest(top)
        for part in range(0, width, lanes):
            store(logits, row * width + part, exp(load(logits, row * width + part) - most))
    for row in range(rows):
        sums = zeros(logits)
        for part in range(0, width, lanes):
            sums = sums + load(logits, row * width + part)
        share = 1.0 / total(sums)
        for part in range(0, k, lanes):
            store_some(out, to + row * k + part, load(logits, row * width + part) * share, min(lanes, k - part))


@kernel
def rows_forward(
    inputs: Array, weights: Array, bias: Array, recurrent: Array, hidden: Array, states: Array, mask: Array,
    x: Array, u: Array, logits: Array, rows_out: Array, rows: int, d: int, k: int, low: int, high: int
) -> None:  # fmt: skip
    """softmax(S u) for inputs low … high, where u is the output of a GRU for the input and each hidden state.

    d is a multiple of the lanes. ``states`` is Sᵀ, (d, width), where width is k rounded up to whole vectors; ``mask``,
    (width,), is 0 for the k states and a large negative number beyond them. ``x`` (inputs, 3 d), ``u`` (inputs, rows,
    d) and ``logits`` (inputs, rows, width) are buffers for the inputs that are computed together.
    """
    lanes, width, together = BYTES // x.itemsize, mask.size, x.size // (3 * d)
    for begin in range(low, high, together):
        count = min(together, high - begin)
        _project(x, inputs, begin, count, weights, bias)
        for n in range(count):
            for place in range(0, d, lanes):
                at, to = n * 3 * d + place, n * rows * d + place
                x_r, x_z, x_n = load(x, at), load(x, at + d), load(x, at + 2 * d)
                for i in range(rows):  # two short loops, as above
                    own = i * 3 * d + place
                    r = sigmoid(x_r + load(recurrent, own))
                    store(u, to + i * d, fma(r, load(recurrent, own + 2 * d), x_n))
                for i in range(rows):
                    z = sigmoid(x_z + load(recurrent, i * 3 * d + place + d))
                    c = tanh(load(u, to + i * d))
                    store(u, to + i * d, fma(z, load(hidden, i * d + place) - c, c))
        for part in range(0, width, lanes):
            product1(
                logits, strides(part, width), mask, strides(part), u, strides(0, d, 1), states, strides(part, 0, width),
                d, count * rows
            )  # fmt: skip
        _softmax(logits, width, count * rows, rows_out, begin * rows * k, k)


@device_function
def _softmax_slopes(p: Array, grad: Array, start: int, out: Array, rows: int, k: int) -> None:
    """Gradients of logits (rows, k), from the gradients of their softmax ``p``, whose rows begin at ``start``."""
    lanes = BYTES // p.itemsize
    for row in range(rows):
        at, inner = start + row * k, zeros(p)
        for part in range(0, k, lanes):
            count = min(lanes, k - part)
            inner = fma(load_some(p, at + part, count), load_some(grad, at + part, count), inner)
        mean = total(inner)
        for part in range(0, k, lanes):
            count = min(lanes, k - part)
            value = load_some(p, at + part, count) * (load_some(grad, at + part, count) - mean)
            store_some(out, row * k + part, value, count)


@kernel
def rows_backward(
    inputs: Array, weights: Array, bias: Array, recurrent: Array, hidden: Array, states: Array, rows_out: Array,
    grad: Array, x: Array, gates: Array, u: Array, du: Array, slopes: Array, nothing: Array, grad_x: Array,
    grad_recurrent: Array, grad_hidden: Array, grad_states: Array, rows: int, d: int, k: int, low: int, high: int
) -> None:  # fmt: skip
    """Gradients for inputs low … high; they are written to ``grad_x`` and added to the others.

    d is a multiple of the lanes. ``states`` is S, (k, d). Buffers for the inputs that are computed together are ``x``
    (inputs, 3 d), ``gates`` (inputs, rows, 3 d), ``u`` and ``du`` (inputs, rows, d) and, for the gradients of the
    logits, ``slopes`` (inputs, rows, k). ``nothing`` is zeros, four vectors.
    """
    lanes, together = BYTES // x.itemsize, x.size // (3 * d)
    for begin in range(low, high, together):
        count = min(together, high - begin)
        _softmax_slopes(rows_out, grad, begin * rows * k, slopes, count * rows, k)
        _project(x, inputs, begin, count, weights, bias)
        for n in range(count):
            for place in range(0, d, lanes):
                at = n * 3 * d + place
                x_r, x_z, x_n = load(x, at), load(x, at + d), load(x, at + 2 * d)
                for i in range(rows):
                    own, to = i * 3 * d + place, (n * rows + i) * 3 * d + place
                    store(gates, to, sigmoid(x_r + load(recurrent, own)))
                    store(gates, to + d, sigmoid(x_z + load(recurrent, own + d)))
                for i in range(rows):
                    own, to = i * 3 * d + place, (n * rows + i) * 3 * d + place
                    c = tanh(fma(load(gates, to), load(recurrent, own + 2 * d), x_n))
                    store(gates, to + 2 * d, c)
                    store(u, (n * rows + i) * d + place, fma(load(gates, to + d), load(hidden, i * d + place) - c, c))
        left, across, size = strides(0, k, 1), strides(0, 1, k), count * rows
        for place in range(0, d - d % (4 * lanes), 4 * lanes):
            at, right = strides(place, d), strides(place, 0, d)
            product4(du, at, nothing, strides(0), slopes, left, states, right, k, size)
            product4(grad_states, at, grad_states, at, slopes, across, u, right, size, k)
        for place in range(d - d % (4 * lanes), d, lanes):
            at, right = strides(place, d), strides(place, 0, d)
            product1(du, at, nothing, strides(0), slopes, left, states, right, k, size)
            product1(grad_states, at, grad_states, at, slopes, across, u, right, size, k)
        for n in range(count):
            for place in range(0, d, lanes):
                sum_r = sum_z = sum_n = zeros(x)
                for i in range(rows):
                    own, state, row = i * 3 * d + place, i * d + place, n * rows + i
                    h_n, h, passed = load(recurrent, own + 2 * d), load(hidden, state), load(du, row * d + place)
                    at = row * 3 * d + place
                    r, z, c = load(gates, at), load(gates, at + d), load(gates, at + 2 * d)
                    dz = passed * (h - c) * (z - z * z)
                    dn = passed * (1.0 - z) * (1.0 - c * c)
                    dr = dn * h_n * (r - r * r)
                    sum_r, sum_z, sum_n = sum_r + dr, sum_z + dz, sum_n + dn
                    store(grad_recurrent, own, load(grad_recurrent, own) + dr)
                    store(grad_recurrent, own + d, load(grad_recurrent, own + d) + dz)
                    store(grad_recurrent, own + 2 * d, fma(dn, r, load(grad_recurrent, own + 2 * d)))
                    store(grad_hidden, state, fma(passed, z, load(grad_hidden, state)))
                to = (begin + n) * 3 * d + place
                store(grad_x, to, sum_r)
                store(grad_x, to + d, sum_z)
                store(grad_x, to + 2 * d, sum_n)


@kernel
def chain_forward(
    matrices: Array, places: Array, lengths: Array, pi: Array, sums: Array, product: Array, steps: int, k: int,
    low: int, high: int
) -> None:  # fmt: skip
    """π_t = π_{t-1} A_t, normalized, for sequences low … high; ``sums`` are those before the normalization.

    A_t is the matrix number ``places[b, t]``, or number t of sequence b where ``places`` is empty. ``product`` is a
    buffer of k values, rounded up to whole vectors: what was written in part must not be read back at once.
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
                store(product, place, value)
                whole = whole + value
            size = total(whole)
            put(sums, b * steps + t, size)
            for place in range(0, k, lanes):
                store_some(pi, after + place, load(product, place) / size, min(lanes, k - place))


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
            inner = zeros(matrices)
            for place in range(0, k, lanes):
                count = min(lanes, k - place)
                inner = fma(load_some(grad_first, own + place, count), load_some(pi, after + place, count), inner)
            mean, size = total(inner), get(sums, b * steps + t)
            for place in range(0, k, lanes):
                count = min(lanes, k - place)
                store_some(deltas, delta_at + place, (load_some(grad_first, own + place, count) - mean) / size, count)
        for b in range(low, high):  # a loop of its own: it would wait for what was just written
            if lengths.size > 0 and t + 1 >= lengths[b]:
                continue
            before, own, delta_at = (b * (steps + 1) + t) * k, b * k, (b * steps + t) * k
            a = (places[b * steps + t] if places.size > 0 else b * steps + t) * k * k
            for place in range(0, k, lanes):
                count = min(lanes, k - place)
                passed = load_some(grad, before + place, count)
                for j in range(k):
                    passed = fma(spread_at(deltas, delta_at + j), load_some(matrices, a + j * k + place, count), passed)
                store_some(grad_first, own + place, passed, count)


@kernel
def sort_steps(places: Array, order: Array, ends: Array) -> None:
    """Sort the numbers of all steps by the matrix that they use, as ``matrix_gradients`` takes them.

    ``ends``, one value per matrix, is zeros at first.
    """
    for at in range(places.size):
        ends[places[at]] += 1
    start = 0
    for n in range(ends.size):  # where the steps of a matrix begin
        start, ends[n] = start + ends[n], start
    for at in range(places.size):
        order[ends[places[at]]] = at
        ends[places[at]] += 1


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
        for place in range(0, k, lanes):
            count, to = min(lanes, k - place), n * k * k + place
            whole = k - k % 4
            for i in range(0, whole, 4):  # four sums, which do not wait for each other
                one = two = three = four = zeros(pi)
                for number in range(start, end):
                    at = order[number]
                    before = (at + at // steps) * k + i  # π has one step more
                    delta = load_some(deltas, at * k + place, count)
                    one = fma(spread_at(pi, before), delta, one)
                    two = fma(spread_at(pi, before + 1), delta, two)
                    three = fma(spread_at(pi, before + 2), delta, three)
                    four = fma(spread_at(pi, before + 3), delta, four)
                store_some(grad_matrices, to + i * k, one, count)
                store_some(grad_matrices, to + (i + 1) * k, two, count)
                store_some(grad_matrices, to + (i + 2) * k, three, count)
                store_some(grad_matrices, to + (i + 3) * k, four, count)
            for i in range(whole, k):
                one = zeros(pi)
                for number in range(start, end):
                    at = order[number]
                    one = fma(spread_at(pi, (at + at // steps) * k + i), load_some(deltas, at * k + place, count), one)
                store_some(grad_matrices, to + i * k, one, count)


@kernel
def number_tokens(tokens: Array, numbers: Array, entries: Array, places: Array) -> int:
    """Number the tokens that occur in ascending order: their ids in ``entries``, the numbers of all in ``places``.

    ``numbers``, (vocabulary,), is zeros and afterwards the number of each token that occurs. Returns how many occur; or
    -1, having done nothing, where one is not in the vocabulary.
    """
    for i in range(tokens.size):
        if tokens[i] < 0 or tokens[i] >= numbers.size:
            return -1
        numbers[tokens[i]] = 1
    count = 0
    for token in range(numbers.size):
        if numbers[token] > 0:
            entries[count] = token
            numbers[token] = count
            count += 1
    for i in range(tokens.size):
        places[i] = numbers[tokens[i]]
    return count
