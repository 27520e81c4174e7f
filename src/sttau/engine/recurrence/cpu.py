"""The factored recurrence on a CPU; the kernels, compiled by Numba, are in ``cpu_forward.py`` and ``cpu_backward.py``.

Division of the work. Rows share only the weights, so each can be computed for all steps independently.

    group   a few sequences, with all their samples, computed together: while one waits for a sum, another computes
    task    groups that one thread processes one after another, adding to its own part of the weights' gradients; the
            parts are added up at the end. With few sequences, the samples of the forward pass are divided as well
    piece   steps of a group, few enough that what they need stays in the second-level cache:

            forward     project the piece's inputs ─▶ draw its noise ─▶ step by step: gates, u, logits, α
            backward    (project again) ─▶ step by step, from the end: δα, δu, δgates ─▶ products for dU, dS, dW
    span    with tokens, the steps whose gate gradients are stored until they are summed token by token

Memory layout. A ``Vector`` is a SIMD register, and its elements are its ``lanes``. The hidden units are divided into
panels of one Vector, the last padded with zeros, and a row of gates is stored panel by panel, with a panel's gates in
adjacent slots: what one Vector of u needs is contiguous, and is one tile of a matrix product. The slots are

    LSTM   i  f  g  o                    read from the input and from the state
    GRU    n  r  z                       read from the input (n before the reset)
              r  z  n'  h                read from the state: the n that is reset, and h itself (its "weights" are S)

so for both cells the state's part is a combination of k rows of four slots, U (and S), with coefficients α_{t-1}; at a
row's first step it is the row ``start`` with coefficient 1. With few features their weights are such rows as well; with
more, the input is projected by a matrix product, and forward saves a bounded part of it for backward; with tokens
every token's vector is projected once.

Every sum has a fixed order, determined by the shapes: results depend neither on the number of threads nor, for a row's
values, on the other rows.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import torch
from torch import Tensor

from sttau.engine.recurrence import cpu_backward, cpu_forward
from sttau.engine.recurrence.cpu_common import (
    DIRECT,
    FEATURES,
    TABLE,
    BackwardInputs,
    Group,
    Outputs,
    Plan,
    Sums,
    sizes,
)
from sttau.engine.recurrence.problem import Gradients, Needs, Problem, Results, through_weight
from sttau.engine.simd import Array, lanes_of
from sttau.engine.simd.arrays import as_array, as_integers, as_tensor, empty, filled, from_panels, pad_last, to_panels
from sttau.engine.simd.threads import ranges, run_all

_FEW_FEATURES = 8  # up to this number x_t joins α_{t-1} as coefficients, and the input is not projected
_PIECE_BYTES = 1 << 19  # projected input of a piece: half a second-level cache
_KEPT_BYTES = 3 << 23  # projected input saved for backward, in whole steps; later steps are projected again
# (beyond 32 MiB malloc takes new pages from the system each time, which costs as much as projecting again)
_PART_BYTES = 1 << 26  # the tasks' own sums of weight gradients, together
_SPAN_BYTES = 1 << 25  # with tokens, gate gradients that are stored until they are summed token by token
_TOKENS = 96  # tokens that one task projects


def projected_shape(problem: Problem, keep: bool) -> tuple[int, ...]:
    """The shape of the rows of gates that forward saves: (tokens, gates), (batch, steps, gates) of features, or (0,).

    Written without comparisons, so that compilers and exporters may keep lengths symbolic.
    """
    few = problem.index is None and problem.x.shape[-1] <= _FEW_FEATURES
    if not keep or few:
        return (0,)
    lanes, slots = lanes_of(problem.x.element_size()), 4 if problem.cell == "lstm" else 5
    width = (-(-problem.states.shape[1] // lanes) * slots + 1) * lanes  # as ``cpu_common.sizes`` has it
    if problem.index is not None:
        return (len(problem.x), width)
    time, batch, _ = problem.x.shape
    return batch, torch.sym_min(time, _KEPT_BYTES // (batch * width * problem.x.element_size())), width


def forward(problem: Problem, keep: bool) -> Results:
    """Run the recurrence; ``keep`` saves what backward will need."""
    tokens = problem.index is not None
    projected = problem.states.new_empty(projected_shape(problem, keep or tokens))
    plan, tasks = _plan(problem, projected)
    if tokens:
        count = len(problem.x)
        run_all(lambda item: cpu_forward.project_tokens(plan, *item), ranges(count, _TOKENS), count * plan.hidden)
    T, rows, k, d = plan.time, plan.rows, plan.k, plan.hidden
    shapes = {
        "alpha": (T, rows, k),
        "output": ({"none": 0, "last": 1, "all": T}[problem.read], rows, d),
        "last": (rows if plan.lstm else 0, d),
        "soft": (T if keep and plan.hard else 0, rows, k),
        "memory": (T if keep and plan.lstm else 0, rows, d),
    }
    arrays = {name: empty(plan.x, *shape) for name, shape in shapes.items()}
    if problem.lengths is not None:
        arrays["alpha"].fill(0)
        arrays["output"].fill(0)
    outputs = Outputs(*(array.reshape(-1) for array in arrays.values()))
    # With few sequences their samples are divided too; each group then projects the input itself.
    whole, samples = [group for task in tasks for group in task], rows // plan.batch
    share = -(-samples // max(1, 4 // len(whole)))
    groups = [group._replace(s0=low, s1=high) for group in whole for low, high in ranges(samples, share)]

    def carry(group: Group) -> None:
        cpu_forward.forward_rows(plan, outputs, empty(plan.x, cpu_forward.forward_space(plan, group)), group)

    run_all(carry, groups, T * rows * d)
    return Results(
        **{name: torch.from_numpy(array) for name, array in arrays.items()},
        projected=projected if keep else projected.new_empty(0),
    )


def backward(
    problem: Problem,
    results: Results,
    grad_alpha: Tensor | None,
    grad_output: Tensor | None,
    grad_last: Tensor | None,
    needs: Needs,
    weight: Tensor | None = None,
) -> Gradients:
    """Gradients of everything the recurrence was computed from."""
    plan, tasks = _plan(problem, results.projected)
    T, rows, F, k, d = plan.time, plan.rows, plan.features, plan.k, plan.hidden
    needs_x, zeros = needs.x, problem.states.new_zeros
    grad_alpha = zeros(T, rows, k) if grad_alpha is None else grad_alpha
    if grad_output is None:
        grad_output = zeros({"none": 0, "last": 1, "all": T}[problem.read], rows, d)
    grad_last = zeros(rows if plan.lstm else 0, d) if grad_last is None else grad_last
    lanes, panels, _, width, wide = sizes.py_func(plan)
    gates, parts, tokens = 4 if plan.lstm else 3, len(tasks), len(problem.x) if problem.index is not None else 0
    span = max(1, min(T, _SPAN_BYTES // (rows * width * plan.x.itemsize))) if tokens else T

    def new(*shape: int) -> Array:
        return filled(plan.x, 0, *shape)

    x = new(*problem.x.shape) if needs_x else new(0)
    table = new(tokens * width)  # with tokens: gradients of the gates, summed token by token
    memory = pad_last(as_array(grad_last), panels * lanes)
    start, carry, peephole = new(rows, panels, 4, lanes), new(rows, wide), new(parts, 3, panels * lanes)
    recurrent, states = new(parts, panels, k, 4, lanes), new(parts, k, panels * lanes)
    input_ = new(1 if tokens else parts, panels, F, gates, lanes)
    bias, temperature = new(1 if tokens else parts, panels, 1, gates, lanes), np.zeros(parts)
    waiting = empty(plan.x, rows * span * width if tokens else 0)
    summed = (recurrent, input_, bias, states, peephole)
    weights = _transposed(problem, lanes) if needs_x else new(0)
    soft = results.soft if plan.hard else results.alpha
    read = (results.alpha, soft, results.memory, grad_alpha, grad_output)
    given = BackwardInputs(weights, *(as_array(tensor).reshape(-1) for tensor in read))

    def sums_of(part: int) -> Sums:
        own = (array[min(part, len(array) - 1)] for array in summed)
        written = (carry, memory, start, x, waiting, *own, temperature[part : part + 1])
        return Sums(*(array.reshape(-1) for array in written))

    for low in range(0, T, span) if plan.reverse else range((T - 1) // span * span, -1, -span):
        high = min(T, low + span)

        def carry_back(part: int, low: int = low, high: int = high) -> None:
            for group in tasks[part]:
                space = empty(plan.x, cpu_backward.backward_space(plan, group))
                cpu_backward.backward_rows(plan, given, sums_of(part), space, group, low, high)

        run_all(carry_back, range(parts), (high - low) * rows * d)
        if problem.index is not None:
            order, cuts = _by_token(np.tile(as_array(problem.index[low:high]), rows // plan.batch).reshape(-1), tokens)

            def gather(cut: tuple[int, int], low: int = low, high: int = high, order: Array = order) -> None:
                cpu_backward.gather_tokens(plan, table, waiting, order, low, high - low, *cut)

            run_all(gather, cuts, (high - low) * rows * d)
    if tokens:
        one, sums = filled(plan.x, 1, lanes), sums_of(0)
        run_all(lambda v: cpu_backward.back_table(plan, table, sums, one, tokens, v), range(panels), tokens * d)

        def back_tokens(some: tuple[int, int]) -> None:
            cpu_backward.back_tokens(plan, weights, table, sums.x, empty(plan.x, 4 * lanes * _TOKENS), *some)

        if needs_x:
            run_all(back_tokens, ranges(tokens, _TOKENS), tokens * d)
    for array in summed:
        cpu_backward.add_parts(array.reshape(-1), array[0].size)

    of_recurrent = from_panels(recurrent[0], d)
    of_start = start.swapaxes(1, 2).reshape(rows, 4, -1)[..., :d]
    of_first = memory[:, :d] if plan.lstm else of_start[:, 3]
    of_states = states[0, :, :d] if plan.lstm else states[0, :, :d] + of_recurrent[:, 3]
    roll = 0 if plan.lstm else -1  # n, r, z back to r, z, n
    of_input, of_bias = (np.roll(from_panels(array[0], d), roll, axis=1) for array in (input_, bias))
    gradients = Gradients(
        x=torch.from_numpy(x) if needs_x else None,
        input=as_tensor(of_input.transpose(1, 2, 0).reshape(gates * d, F)),
        input_bias=None if problem.input_bias is None else as_tensor(of_bias.reshape(-1)),
        recurrent=as_tensor(of_recurrent[:, :gates].reshape(k, gates * d)),
        states=as_tensor(of_states),
        temperature=torch.tensor(temperature.sum(), dtype=problem.x.dtype),
        peephole=None if problem.peephole is None else as_tensor(peephole[0, :, :d]),
        start=as_tensor(_shared(of_start[:, :gates].reshape(rows, -1), len(problem.start))),
        first=as_tensor(_shared(of_first, len(problem.first))) if needs.first else None,
    )
    return gradients if weight is None else through_weight(gradients, problem.states, weight)


def _plan(problem: Problem, projected: Tensor) -> tuple[Plan, list[list[Group]]]:
    """Lay a problem out for the kernels; and the tasks."""
    x, states, lstm = as_array(problem.x), as_array(problem.states), problem.cell == "lstm"
    lanes, gates, slots = lanes_of(x.itemsize), 4 if lstm else 3, 4 if lstm else 5
    (k, d), F = states.shape, x.shape[-1]
    panels = -(-d // lanes)
    width = (panels * slots + 1) * lanes
    time, batch = (problem.x if problem.index is None else problem.index).shape[:2]
    source = TABLE if problem.index is not None else DIRECT if F <= _FEW_FEATURES else FEATURES

    size = min(8, max(1, batch // 4))
    groups = [Group(low, high, 0, problem.rows // batch) for low, high in ranges(batch, size)]
    own = panels * lanes * x.itemsize * (5 * k + (F * gates if source != TABLE else 0))
    tasks = min(len(groups), 32, max(4, _PART_BYTES // own))
    piece = min(time, max(24, min(96, _PIECE_BYTES // (size * width * x.itemsize) // 24 * 24)))

    bias = np.zeros((1, slots, d), dtype=x.dtype)
    if problem.input_bias is not None:
        bias[:, :gates] = _slots(as_array(problem.input_bias).reshape(1, gates, d), lstm)
    start, first = as_array(problem.start).reshape(-1, gates, d), as_array(problem.first)
    recurrent = as_array(problem.recurrent).reshape(k, gates, d)
    if not lstm:
        both = max(len(start), len(first))
        opening = np.broadcast_to(start, (both, 3, d)), np.broadcast_to(first[:, None], (both, 1, d))
        start, recurrent = np.concatenate(opening, axis=1), np.concatenate((recurrent, states[:, None]), axis=1)
    plan = Plan(
        x=x.reshape(-1),
        tokens=as_integers(problem.index),
        projected=as_array(projected).reshape(-1),
        input=to_panels(_input_slots(problem).transpose(2, 0, 1), lanes),
        bias=to_panels(bias, lanes),
        recurrent=to_panels(recurrent, lanes),
        start=np.concatenate([to_panels(row[None], lanes) for row in start]),
        first=pad_last(first, panels * lanes).reshape(-1),
        states=to_panels(states[:, None], lanes),
        peephole=empty(x, 0)
        if problem.peephole is None
        else pad_last(as_array(problem.peephole), panels * lanes).reshape(-1),
        lengths=np.full(batch, time) if problem.lengths is None else as_integers(problem.lengths),
        sequence=as_integers(problem.sequence),
        sample=as_integers(problem.sample),
        time=time,
        batch=batch,
        rows=problem.rows,
        features=F,
        hidden=d,
        k=k,
        seed=0 if problem.seed is None else int(problem.seed),
        first_step=problem.first_step,
        layer=problem.layer,
        piece=piece,
        kept=projected.shape[1] if projected.dim() == 3 else 0,
        source=source,
        temperature=float(problem.temperature),
        lstm=lstm,
        noisy=problem.mode != "deterministic",
        hard=problem.mode == "hard",
        reverse=problem.reverse,
        every=problem.read == "all",
        final=problem.read == "last",
    )
    return plan, [groups[low:high] for low, high in ranges(len(groups), -(-len(groups) // tasks))]


def _slots(gates: Array, lstm: bool) -> Array:
    """Gates (n, G, …) in the order of the input's slots."""
    return gates if lstm else np.roll(gates, 1, axis=1)


def _input_slots(problem: Problem) -> Array:
    """W_x as (input slots, d, features)."""
    weight = as_array(problem.input).reshape(1, -1, problem.states.shape[1], problem.input.shape[1])
    (slots,) = _slots(weight, problem.cell == "lstm")
    return slots  # type: ignore[no-any-return]


def _transposed(problem: Problem, lanes: int) -> Array:
    """W_x for the gradient of x: (panels of features, panels, input slots · lanes, features of a panel), flat."""
    slots = _input_slots(problem)
    gates, d, F = slots.shape
    size = (4 if 3 * lanes < F else 1) * lanes
    panels, columns = -(-d // lanes), -(-F // size)
    padded = filled(slots, 0, gates, panels * lanes, columns * size)
    padded[:, :d, :F] = slots
    weights = empty(slots, columns, panels, gates, lanes, size)
    weights[:] = padded.reshape(gates, panels, lanes, columns, size).transpose(3, 1, 0, 2, 4)
    return weights.reshape(-1)


def _shared(gradient: Array, rows: int) -> Array:
    """The gradient (rows, …), summed over the rows where they share the value."""
    whole: Array = gradient if len(gradient) == rows else gradient.sum(axis=0, keepdims=True)
    return whole


def _by_token(token: Array, tokens: int) -> tuple[Array, list[tuple[int, int]]]:
    """Steps in the order of their tokens, and the ranges to divide them into, so that every token is in one range."""
    ends = np.bincount(token, minlength=tokens).cumsum()
    near = np.arange(1, 17) * len(token) // 16
    cuts = [0, *np.unique(ends[np.searchsorted(ends, near)]).tolist()]
    return np.argsort(token, kind="stable"), list(pairwise(cuts))
