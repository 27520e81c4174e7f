"""Device functions of the tiled kernels: what several rows of a program read, and products by tiles of matrices."""

from __future__ import annotations

import triton
import triton.language as tl

from sttau.engine.recurrence.triton_common import sum2, sum4


@triton.jit
def rows_of(program, lengths, time, B, rows, R: tl.constexpr):
    """Rows of a program, their sequences, their valid steps (0 for a row that does not exist), and the most of them."""
    row = ()
    sequence = ()
    length = ()
    longest = tl.cast(0, tl.int64)
    for r in tl.static_range(R):
        number = program.to(tl.int64) * R + r
        own = number % B
        if lengths is None:
            valid = tl.cast(time, tl.int64)
        else:
            valid = tl.load(lengths + own).to(tl.int64)
        valid = tl.where(number < rows, valid, 0)
        row = row + (number,)
        sequence = sequence + (own,)
        length = length + (valid,)
        longest = tl.maximum(longest, valid)
    return row, sequence, length, longest


@triton.jit
def rows_at(t, t0, t1, length, R: tl.constexpr, REVERSE: tl.constexpr):
    """Whether each row has step t, and whether it is the first that the row reads; both false outside the piece."""
    active = ()
    opens = ()
    for r in tl.static_range(R):
        there = (t >= t0) & (t < t1) & (t < length[r])
        active = active + (there,)
        opens = opens + (there & ((t == length[r] - 1) if REVERSE else (t == 0)),)
    return active, opens


@triton.jit
def load_blocks(pointer, columns, on, G: tl.constexpr, d):
    """G vectors that are read once, so that they displace nothing in the L1 cache."""
    values = ()
    for g in tl.static_range(G):
        values = values + (tl.load(pointer + g * d + columns, mask=on, other=0.0, cache_modifier=".cg").to(tl.float32),)
    return values


@triton.jit
def load_states(pointer, place, active, opens, K: tl.constexpr, KB: tl.constexpr, NB: tl.constexpr, R: tl.constexpr):
    """NB vectors of KB states for each row that is active and does not open; zeros for the others."""
    values = ()
    for r in tl.static_range(R):
        for b in tl.static_range(NB):
            j = b * KB + tl.arange(0, KB)
            on = j < tl.where(active[r] & (opens[r] == 0), K, 0)
            values = values + (tl.load(pointer + (place + r) * K + j, mask=on, other=0.0, cache_modifier=".cg"),)
    return values


@triton.jit
def load_across(
    across, block: tl.constexpr, part: tl.constexpr, columns, L1: tl.constexpr,
    d: tl.constexpr, KS: tl.constexpr, KB: tl.constexpr,
):  # fmt: skip
    """A tile of a transposed matrix, (D, KB); its lines have KS values."""
    j = block * KB + tl.arange(0, KB)
    return tl.load(
        across + (part * d + columns)[:, None] * KS + j[None, :],
        mask=(columns < d)[:, None] & (j < KS)[None, :],
        other=0.0,
        cache_modifier="" if L1 else ".cg",
    )


@triton.jit
def load_along(
    matrix, block: tl.constexpr, part: tl.constexpr, columns, L1: tl.constexpr,
    d: tl.constexpr, G: tl.constexpr, K: tl.constexpr, KB: tl.constexpr,
):  # fmt: skip
    """A tile of a matrix, (KB, D), whose columns belong to threads."""
    j = block * KB + tl.arange(0, KB)
    return tl.load(
        matrix + (j * G + part)[:, None] * d + columns[None, :],
        mask=(j < K)[:, None] & (columns < d)[None, :],
        other=0.0,
        cache_modifier="" if L1 else ".cg",
    )


@triton.jit
def mix_tiles(
    weights, kept, matrix, columns, d: tl.constexpr, G: tl.constexpr, K: tl.constexpr,
    KB: tl.constexpr, NB: tl.constexpr, R: tl.constexpr, KEPT: tl.constexpr, L1: tl.constexpr,
):  # fmt: skip
    """Σ_j weights_j · matrix[j], G vectors for R rows; of the tiles, KEPT are given, and L1 more stay in that cache."""
    total = ()
    for _ in tl.static_range(R * G):
        total = total + (tl.zeros_like(columns).to(tl.float32),)
    for b in tl.static_range(NB):
        tiles = ()
        for g in tl.static_range(G):
            if b * G + g < KEPT:
                tiles = tiles + (kept[b * G + g],)
            else:
                tiles = tiles + (load_along(matrix, b, g, columns, b * G + g < KEPT + L1, d, G, K, KB),)
        mixed = ()
        for r in tl.static_range(R):
            for g in tl.static_range(G):
                mixed = mixed + (total[r * G + g] + tl.sum(tiles[g] * weights[r * NB + b][:, None], 0),)
        total = mixed
    return total


@triton.jit
def sum_tiles(p, n: tl.constexpr):
    """The sums over columns of up to four tiles, in one exchange between threads."""
    if n == 4:
        a, b, c, d = sum4(p, 0)
        return (a, b, c, d)
    elif n == 3:
        a, b = sum2(p, 0)
        return (a, b, tl.sum(p[2], 0))
    elif n == 2:
        a, b = sum2(p, 0)
        return (a, b)
    else:
        return (tl.sum(p[0], 0),)


@triton.jit
def read_input(
    x, place, sequence, active, columns, x_stride, G: tl.constexpr, d: tl.constexpr, R: tl.constexpr
):  # fmt: skip
    """The projected input of R rows; ``place`` is that of the step's first sequence."""
    values = ()
    for r in tl.static_range(R):
        on = columns < tl.where(active[r], d, 0)
        values = values + load_blocks(x + (place + sequence[r]) * x_stride, columns, on, G, d)
    return values


@triton.jit
def tile_logits(
    across, u, columns, d: tl.constexpr, KS: tl.constexpr, KB: tl.constexpr, NB: tl.constexpr, R: tl.constexpr
):  # fmt: skip
    """S u of R rows, tile by tile: number b · R + r of the result is tile b of row r."""
    l = ()
    waiting = ()
    for b in tl.static_range(NB):
        tile = load_across(across, b, 0, columns, True, d, KS, KB)
        for r in tl.static_range(R):
            waiting = waiting + (tile * u[r][:, None],)
            if (b * R + r) % 4 == 3 or b * R + r == NB * R - 1:
                l = l + sum_tiles(waiting, (b * R + r) % 4 + 1)
                waiting = ()
    return l


@triton.jit
def read_saved(
    wide, memory, grad_output, inside, place, move, active, opens, columns, rows,
    BLOCKS: tl.constexpr, GRU: tl.constexpr, READ: tl.constexpr, d: tl.constexpr, R: tl.constexpr,
):  # fmt: skip
    """What gates read, the memory after and before the step, and the gradient of u: BLOCKS + 2 vectors for each row."""
    values = ()
    for r in tl.static_range(R):
        here = columns < tl.where(active[r], d, 0)
        values = values + load_blocks(wide + (inside + r) * BLOCKS * d, columns, here, BLOCKS - 1, d)
        if GRU:
            values = values + (tl.zeros_like(columns).to(tl.float32), tl.zeros_like(columns).to(tl.float32))
        else:
            goes_on = columns < tl.where(active[r] & (opens[r] == 0), d, 0)
            values = values + load_blocks(memory + (place + r) * d, columns, here, 1, d)
            values = values + load_blocks(memory + (place + r + move * rows) * d, columns, goes_on, 1, d)
        if READ == 2:
            values = values + load_blocks(grad_output + (place + r) * d, columns, here, 1, d)
        else:
            values = values + (tl.zeros_like(columns).to(tl.float32),)
    return values


@triton.jit
def tile_slopes(
    parts, kept, across, columns, d: tl.constexpr, KS: tl.constexpr, KB: tl.constexpr, NB: tl.constexpr,
    R: tl.constexpr, KEPT: tl.constexpr, L1: tl.constexpr,
):  # fmt: skip
    """The gradients of α from those of four blocks of columns, for R rows: number b · R + r is tile b of row r."""
    gradient = ()
    waiting = ()
    AT_ONCE: tl.constexpr = 4 if KB <= 16 else 2
    for b in tl.static_range(NB):
        total = ()
        for i in tl.static_range(4):
            if b * 4 + i < KEPT:
                tile = kept[b * 4 + i]
            else:
                tile = load_across(across, b, i, columns, b * 4 + i < KEPT + L1, d, KS, KB)
            added = ()
            for r in tl.static_range(R):
                product = tile * parts[r * 4 + i][:, None]
                if i > 0:
                    product += total[r]
                added = added + (product,)
            total = added
        for r in tl.static_range(R):
            waiting = waiting + (total[r],)
            if (b * R + r) % AT_ONCE == AT_ONCE - 1 or b * R + r == NB * R - 1:
                gradient = gradient + sum_tiles(waiting, (b * R + r) % AT_ONCE + 1)
                waiting = ()
    return gradient
