"""Records and device functions that the forward and the backward kernels of the CPU engine share."""

from __future__ import annotations

from typing import Any, NamedTuple

from sttau.engine.simd import (
    BYTES,
    Array,
    device_function,
    fma,
    load,
    pointer,
    product3,
    product4,
    spread_at,
    strides,
    zeros,
)

TABLE, FEATURES, DIRECT = 0, 1, 2  # source of the input's part of the gates: tokens, many features, few features


class Plan(NamedTuple):
    """A problem as the kernels read it: flat arrays in panels, padded to whole Vectors, and scalars."""

    x: Array
    tokens: Array  # (time, batch) rows of ``projected``
    projected: Array  # rows of gates: of every token, or (batch, kept steps) of features
    input: Array  # (panels, features, input slots, lanes)
    bias: Array  # (panels, slots, lanes)
    recurrent: Array  # (panels, states, 4, lanes)
    start: Array  # (1 or rows, panels, 4, lanes)
    first: Array  # (1 or rows, panels, lanes)
    states: Array  # (panels, states, lanes)
    peephole: Array  # (3, panels, lanes) or empty
    lengths: Array
    sequence: Array
    sample: Array
    time: int
    batch: int
    rows: int
    features: int
    hidden: int
    k: int
    seed: int
    first_step: int
    layer: int
    piece: int  # steps
    kept: int  # steps from the first whose projected input is kept
    source: int
    temperature: float
    lstm: bool
    noisy: bool
    hard: bool
    reverse: bool
    every: bool  # whether u is returned at every step
    final: bool  # whether u is returned at the last


class Group(NamedTuple):
    """Sequences b0 … b1, and samples s0 … s1 of each."""

    b0: int
    b1: int
    s0: int
    s1: int


class Outputs(NamedTuple):
    """What forward writes: the fields of ``problem.Results``, flat."""

    alpha: Array
    output: Array
    last: Array
    soft: Array
    memory: Array


class BackwardInputs(NamedTuple):
    """What backward reads besides the plan."""

    weights: Array  # W_x for δx, see ``cpu._transposed``; or empty
    alpha: Array
    soft: Array
    memory: Array
    grad_alpha: Array
    grad_output: Array


class Sums(NamedTuple):
    """What backward writes: values of a row and, from ``recurrent`` on, a task's sums, added up afterwards."""

    carry: Array  # (rows, k in whole Vectors): δα from the step read next
    memory: Array  # (rows, panels, lanes): δc, likewise
    start: Array  # (rows, panels, 4, lanes)
    x: Array  # (time, batch, features) or empty
    gates: Array  # with tokens: (rows, steps of the span, panels, slots, lanes)
    recurrent: Array  # (panels, states, 4, lanes)
    input: Array  # (panels, features, input slots, lanes)
    bias: Array  # (panels, input slots, lanes)
    states: Array  # (states, panels, lanes)
    peephole: Array  # (3, panels, lanes)
    temperature: Array  # (1,)


class Workspace(NamedTuple):
    """The workspace of backward: pointers to buffers for a piece of a group, and for a step."""

    gates: Array  # (sequences, piece, panels, slots, lanes): the gates, then their gradients
    logits: Array  # (sequences, piece, k in whole Vectors): δ of the logits
    us: Array  # (sequences, piece, panels, lanes): tanh c of an LSTM, then u
    x: Array  # (piece, 4, lanes)
    one: Array  # the value 1


class StepPointers(NamedTuple):
    """Pointers to the buffers of one row at one step of the backward pass."""

    gates: Array
    logits: Array
    us: Array
    old: Array  # c before the step, in whole Vectors
    new: Array  # c after it
    memory: Array  # δc
    sums: Array  # (states, lanes): δα of the step before, to be added up over the lanes


class Source(NamedTuple):
    """A row's gates at a step: base + Σ_j factor_j · row_j, and where features are few Σ_j x_j · weight_j."""

    base: Array
    x: Array
    factors: Array
    rows: Array
    panel: int  # from one panel of the rows to the next
    terms: int


@device_function
def sizes(p: Plan) -> tuple[int, int, int, int, int]:
    """Lanes, panels, slots of a panel, length of a row of gates, and k rounded up to whole Vectors."""
    lanes = BYTES // p.x.itemsize
    panels = (p.hidden + lanes - 1) // lanes
    slots = 4 if p.lstm else 5
    # One Vector more than needed: rows at a distance of a power of two would compete for the same cache lines.
    return lanes, panels, slots, (panels * slots + 1) * lanes, (p.k + lanes - 1) // lanes * lanes


@device_function
def project(p: Plan, out: Array, row: int, step: int, rows: int) -> None:
    """The input's part of the gates for ``rows`` rows of x, ``step`` apart, from row ``row``."""
    lanes, panels, slots, width, _ = sizes(p)
    f, x, weights, bias = p.features, pointer(p.x, 0), pointer(p.input, 0), pointer(p.bias, 0)
    for v in range(panels):
        panel = v * slots * lanes
        place, begin, left = strides(panel, width), strides(panel), strides(row * f, step * f, 1)
        if p.lstm:
            product4(out, place, bias, begin, x, left, weights, strides(v * f * 4 * lanes, 0, 4 * lanes), f, rows)
        else:
            product3(out, place, bias, begin, x, left, weights, strides(v * f * 3 * lanes, 0, 3 * lanes), f, rows)


@device_function
def project_piece(p: Plan, out: Array, apart: int, t0: int, steps: int, g: Group) -> None:
    """The input's part of the gates for a piece of a group, ``apart`` rows from one sequence to the next."""
    width = sizes(p)[3]
    for b in range(g.b0, g.b1):
        valid = min(steps, p.lengths[b] - t0)
        if valid > 0:
            project(p, pointer(out, (b - g.b0) * apart * width), t0 * p.batch + b, p.batch, valid)


@device_function
def kept_gates(p: Plan, t0: int, b0: int) -> Any:
    """Pointer to the saved rows of gates, from sequence b0 and step t0 on."""
    return pointer(p.projected, (b0 * p.kept + t0) * sizes(p)[3])


@device_function
def is_first_or_last(p: Plan, t: int, b: int) -> tuple[bool, bool]:
    """Whether t is the step that is read first in a sequence, and whether it is read last."""
    last = p.lengths[b] - 1
    return (t == last, t == 0) if p.reverse else (t == 0, t == last)


@device_function
def first_memory(p: Plan, row: int) -> Any:
    """c_0 of a row."""
    lanes, panels, _, _, _ = sizes(p)
    return pointer(p.first, row * panels * lanes if p.first.size > panels * lanes else 0)


@device_function
def gate_source(p: Plan, projected: Array, t: int, row: int, opening: bool, before: Array, one: Array) -> Source:
    """A row's gates at step t: ``projected`` is its input if features are many, and ``before`` α_{t-1}."""
    lanes, panels, _, width, _ = sizes(p)
    size, place = 4 * lanes, t * p.batch + row % p.batch
    base, x = pointer(p.bias, 0), pointer(p.x, 0)
    if p.source == TABLE:
        base = pointer(p.projected, p.tokens[place] * width)
    elif p.source == FEATURES:
        base = projected
    else:
        x = pointer(p.x, place * p.features)
    if opening:
        at = row * panels * size if p.start.size > panels * size else 0
        return Source(base, x, one, pointer(p.start, at), size, 1)
    return Source(base, x, before, pointer(p.recurrent, 0), p.k * size, p.k)


@device_function
def _combine(factors: Array, rows: Array, terms: int, lanes: int, s0: Any, s1: Any, s2: Any, s3: Any) -> Any:
    """Add Σ_j factor_j · row_j to four Vectors; a row is four Vectors."""
    for j in range(terms):
        factor, q = spread_at(factors, j), j * 4 * lanes
        s0, s1 = fma(factor, load(rows, q), s0), fma(factor, load(rows, q + lanes), s1)
        s2, s3 = fma(factor, load(rows, q + 2 * lanes), s2), fma(factor, load(rows, q + 3 * lanes), s3)
    return s0, s1, s2, s3


@device_function
def lstm_gates(p: Plan, g: Source, v: int) -> Any:
    """i, f, g, o of panel v before the nonlinearity."""
    lanes = BYTES // p.x.itemsize
    at, rows = v * 4 * lanes, pointer(g.rows, v * g.panel)
    i, f, n, o = load(g.base, at), load(g.base, at + lanes), load(g.base, at + 2 * lanes), load(g.base, at + 3 * lanes)
    i, f, n, o = _combine(g.factors, rows, g.terms, lanes, i, f, n, o)
    if p.source == DIRECT:
        i, f, n, o = _combine(g.x, pointer(p.input, p.features * at), p.features, lanes, i, f, n, o)
    return i, f, n, o


@device_function
def gru_gates(p: Plan, g: Source, v: int) -> Any:
    """n, r, z, n' of panel v before the nonlinearity, and h."""
    lanes = BYTES // p.x.itemsize
    at, rows = v * 5 * lanes, pointer(g.rows, v * g.panel)
    n, r, z = load(g.base, at), load(g.base, at + lanes), load(g.base, at + 2 * lanes)
    r, z, old, h = _combine(g.factors, rows, g.terms, lanes, r, z, zeros(p.x), zeros(p.x))
    if p.source == DIRECT:
        for j in range(p.features):
            factor, q = spread_at(g.x, j), (v * p.features + j) * 3 * lanes
            n, r = fma(factor, load(p.input, q), n), fma(factor, load(p.input, q + lanes), r)
            z = fma(factor, load(p.input, q + 2 * lanes), z)
    return n, r, z, old, h
