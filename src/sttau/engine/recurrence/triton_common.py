"""Device functions of the Triton engine, whose programs each own a row and go through its steps.

The *resident* kernels keep U (k × G·d) and S (k × d) in registers. They are specialized for k: the K vectors of a
matrix are a tuple of K one-dimensional tensors, sums over states are unrolled, and α is a tuple of scalars, so that no
state is padded and threads exchange only the K sums over d. The *streamed* kernels take any number of states and read U
and S from cache at every step. Where many rows have many states, a step is two matrix products, with a kernel after
each.

Kernels take the fields of :class:`~sttau.engine.recurrence.problem.Problem`, for the steps t0 … t1 - 1. d is the
hidden size and D the next power of two; F is the number of features projected inside the kernel, or 0 where ``x`` is
projected already. READ selects the u_t to return: 0 none, 1 the last, 2 all.
"""

from __future__ import annotations

import triton
import triton.language as tl

# Arguments that Triton does not specialize on: integers that are 1 or divisible by 16, and alignment of addresses.
ANY_INTEGER = ["t", "t0", "t1", "time", "B", "rows", "x_stride", "start_stride", "first_stride"]
ANY_ADDRESS = ["weight", "bias", "recurrent", "states", "temperature", "peephole", "start", "first", "lengths"]
ANY_GRADIENT = [*ANY_ADDRESS, "grad_alpha", "grad_output"]


@triton.jit
def tanh(x):
    return 2 * tl.sigmoid(2 * x) - 1


@triton.jit
def sum2(p, i: tl.constexpr):
    return tl.split(tl.sum(tl.join(p[i], p[i + 1]), 0))


@triton.jit
def sum4(p, i: tl.constexpr):
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
def sum_vectors(p, K: tl.constexpr):
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
        sums = sums + sum4(p, K // 8 * 8)
    elif K % 8 == 2:
        sums = sums + sum2(p, K // 8 * 8)
    elif K % 8 == 1:
        sums = sums + (tl.sum(p[K - 1], 0),)
    kept = ()
    for j in tl.static_range(K):
        kept = kept + (sums[j],)
    return kept


@triton.jit
def mix(weight, vectors, first: tl.constexpr, stride: tl.constexpr, K: tl.constexpr):
    """Σ_j weight_j · vectors[first + j · stride]"""
    total = weight[0] * vectors[first]
    for j in tl.static_range(1, K):
        total += weight[j] * vectors[first + j * stride]
    return total


@triton.jit
def load_rows(pointer, columns, on, K: tl.constexpr, G: tl.constexpr, d):
    """K · G vectors of a (K, G · d) matrix, with the gates of a state adjacent."""
    rows = ()
    for i in tl.static_range(K * G):
        rows = rows + (tl.load(pointer + i * d + columns, mask=on, other=0.0),)
    return rows


@triton.jit
def load_scalars(pointer, K: tl.constexpr):
    values = ()
    for j in tl.static_range(K):
        values = values + (tl.load(pointer + j),)
    return values


@triton.jit
def zero_scalars(K: tl.constexpr):
    values = ()
    for j in tl.static_range(K):
        values = values + (0.0,)
    return values


@triton.jit
def load_gradient(pointer, place, K: tl.constexpr):
    """The gradient of α at one step; zeros where α has none from outside."""
    if pointer is None:
        return zero_scalars(K)
    else:
        return load_scalars(pointer + place * K, K)


@triton.jit
def load_previous(pointer, goes_on, K: tl.constexpr):
    """α of the step read before; nothing before the first."""
    values = ()
    for j in tl.static_range(K):
        values = values + (tl.load(pointer + j, mask=goes_on, other=0.0),)
    return values


@triton.jit
def load_gates(pointer, columns, on, G: tl.constexpr, d):
    values = ()
    for g in tl.static_range(G):
        values = values + (tl.load(pointer + g * d + columns, mask=on, other=0.0).to(tl.float32),)
    return values


@triton.jit
def zeros_like(like, G: tl.constexpr):
    zeros = ()
    for g in tl.static_range(G):
        zeros = zeros + (tl.zeros_like(like[g]),)
    return zeros


@triton.jit
def gates(xs, h, c, old, peep, GRU: tl.constexpr, PEEPHOLE: tl.constexpr):
    """u and the new c of a step; ``old`` is the h_{t-1} of a GRU."""
    if GRU:
        z = tl.sigmoid(xs[1] + h[1])
        n = tanh(xs[2] + tl.sigmoid(xs[0] + h[0]) * h[2])
        u = n + z * (old - n)
    else:
        i = xs[0] + h[0]
        f = xs[1] + h[1]
        o = xs[3] + h[3]
        if PEEPHOLE:
            i += peep[0] * c
            f += peep[1] * c
        c = tl.sigmoid(f) * c + tl.sigmoid(i) * tanh(xs[2] + h[2])
        if PEEPHOLE:
            o += peep[2] * c
        u = tl.sigmoid(o) * tanh(c)
    return u, c


@triton.jit
def valid_steps(lengths, sequence, time):
    """Valid steps of a sequence; all of them where no lengths are given."""
    if lengths is None:
        return tl.cast(time, tl.int64)
    else:
        return tl.load(lengths + sequence)


@triton.jit
def fetch(x, place, columns, on, G: tl.constexpr, d: tl.constexpr, stride, F: tl.constexpr):
    """Load a step's input: G projected vectors, or F features."""
    if F == 0:
        return load_gates(x + place * stride, columns, on, G, d)
    else:
        values = ()
        for f in tl.static_range(F):
            values = values + (tl.load(x + place * F + f).to(tl.float32),)
        return values


@triton.jit
def project(fetched, W, b, G: tl.constexpr, F: tl.constexpr):
    """The projected input, computed here from a few features."""
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
def load_projection(weight, bias, columns, on, G: tl.constexpr, d: tl.constexpr, F: tl.constexpr):
    """W_x by columns and the bias, for inputs of F features."""
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


@triton.jit
def choose_states(
    here, soft, inverse, state, K: tl.constexpr, KP: tl.constexpr, HARD: tl.constexpr, KEEP: tl.constexpr
):
    """α from logits, in place; ``inverse`` is 1 / τ."""
    l = tl.load(here + state, mask=state < K, other=float("-inf")) * inverse
    top = tl.max(l, 0)
    e = tl.exp(l - top)
    a = e / tl.sum(e, 0)
    if HARD:
        if KEEP:
            tl.store(soft + state, a, mask=state < K)
        winner = tl.min(tl.where(l == top, state, KP), 0)
        a = (state == winner).to(tl.float32)
    tl.debug_barrier()  # all have read what is overwritten
    tl.store(here + state, a, mask=state < K)
