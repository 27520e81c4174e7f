"""The Numba kernel of compiled models: sequences of tokens are read word by word."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from sttau.engine.simd import fma, get, kernel, lanes_of, load, pointer, put, spread_at, store, zeros

LANES = lanes_of(8)  # values per register; rows of the tables are a whole number of registers


@njit(nogil=True, inline="always", _nrt=False)
def _multiply(state: Any, table: Any, at: int, k: int, wide: int, new: Any) -> None:
    """new = state · matrix, where the matrix (k, wide) begins at ``table[at]``."""
    j = 0
    while j + 2 * LANES <= wide:
        a, b = zeros(table), zeros(table)
        for i in range(k):
            factor, place = spread_at(state, i), at + i * wide + j
            a = fma(factor, load(table, place), a)
            b = fma(factor, load(table, place + LANES), b)
        store(new, j, a)
        store(new, j + LANES, b)
        j += 2 * LANES
    if j < wide:
        a = zeros(table)
        for i in range(k):
            a = fma(spread_at(state, i), load(table, at + i * wide + j), a)
        store(new, j, a)


@kernel
def read_sequences(
    ids: NDArray[np.int64],
    lengths: NDArray[np.int64],
    first: NDArray[np.float64],
    matrices: NDArray[np.float64],
    words: NDArray[np.float64],
    states: NDArray[np.float64],
    space: NDArray[np.float64],
    begin: int,
    end: int,
) -> int:
    """Compute the state distributions of the sequences ``begin`` to ``end``.

    Returns the first sequence with an unknown token, or -1.

    ``space`` is a buffer of two rows. An array allocated here could be freed while its pointers are still in use.
    """
    tokens, k, wide = matrices.shape
    width, count = 1, tokens
    while count < len(words):
        count *= tokens
        width += 1
    tokens_table, words_table = pointer(matrices, 0), pointer(words, 0)
    state, new = pointer(space, 0), pointer(space, wide)
    for row in range(begin, end):
        length = lengths[row]
        sequence = pointer(ids, row * ids.shape[1])
        start = get(sequence, 0)
        if start < 0 or start >= tokens:
            return row
        for j in range(wide):
            put(state, j, first[start, j])
        step = 1
        while step < length:
            if step + width <= length:
                word, wrong = 0, False
                for place in range(width):
                    token = get(sequence, step + place)
                    wrong |= token < 0 or token >= tokens
                    word = word * tokens + token
                if wrong:
                    return row
                _multiply(state, words_table, word * k * wide, k, wide, new)
                step += width
            else:
                token = get(sequence, step)
                if token < 0 or token >= tokens:
                    return row
                _multiply(state, tokens_table, token * k * wide, k, wide, new)
                step += 1
            state, new = new, state
        total = 0.0
        for j in range(k):
            total += get(state, j)
        for j in range(k):
            states[row, j] = get(state, j) / total
    return -1
