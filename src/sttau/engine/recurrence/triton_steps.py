"""Many rows of many states: at every step two matrix products, with a kernel after each."""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from sttau.engine.launch import launch
from sttau.engine.recurrence.problem import Problem, Results
from sttau.engine.recurrence.triton_common import (
    ANY_ADDRESS,
    ANY_INTEGER,
    choose_states,
    gates,
    load_gates,
    valid_steps,
)


@triton.jit(do_not_specialize=ANY_INTEGER, do_not_specialize_on_alignment=ANY_ADDRESS)
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
    length = valid_steps(lengths, sequence, time)
    if t < length:
        columns = tl.arange(0, D)
        on = columns < d
        begins = (t == length - 1) if REVERSE else (t == 0)
        peep = ()
        if PEEPHOLE:
            peep = load_gates(peephole, columns, on, 3, d)
        xs = load_gates(x + ((t - t0) * B + sequence) * x_stride, columns, on, G, d)
        c = tl.zeros([D], tl.float32)
        previous = tl.zeros([D], tl.float32)
        if begins:
            own = load_gates(start + row * start_stride, columns, on, G, d)
            given = tl.load(first + row * first_stride + columns, mask=on, other=0.0)
            if GRU:
                previous = given
            else:
                c = given
        else:
            own = load_gates(h + row * G * d, columns, on, G, d)
            if GRU:
                previous = tl.load(old + row * d + columns, mask=on, other=0.0)
            else:
                c = tl.load(last + row * d + columns, mask=on, other=0.0)
        new, c = gates(xs, own, c, previous, peep, GRU, PEEPHOLE)
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
    """α of step t from its perturbed logits, in place."""
    place = (tl.cast(t, tl.int64) * rows + tl.program_id(0)) * K
    choose_states(alpha + place, soft + place, 1 / tl.load(temperature), tl.arange(0, KP), K, KP, HARD, KEEP)


class Steps:
    """Many rows of many states: at every step one matrix product mixes U for all rows, another computes the logits.

    Args:
        problem: Layer and input.
        results: Buffers to fill.
        options: Compile-time values of the kernels.
    """

    def __init__(self, problem: Problem, results: Results, options: dict[str, Any]) -> None:
        d, rows, new = problem.states.shape[1], problem.rows, problem.states.new_empty
        self.problem, self.results, self.quiet = problem, results, options["QUIET"]
        self.mixed, self.u = new(rows, problem.recurrent.shape[1]), new(rows, d)
        self.old = new(rows, d) if options["GRU"] else None
        names = ("d", "D", "GRU", "REVERSE", "READ", "PEEPHOLE", "KEEP")
        self.gates = {name: options[name] for name in names} | {"num_warps": max(1, min(8, options["D"] // 128))}
        self.choice = {"K": options["K"], "KP": triton.next_power_of_2(options["K"])}
        self.choice |= {"HARD": options["HARD"], "KEEP": options["KEEP"], "num_warps": 1}

    def run(self, x: Tensor, steps: range, *integers: int) -> None:
        """Compute a piece of time from its projected input and the integer arguments that all kernels take."""
        problem, (alpha, output, last, soft, memory, _) = self.problem, self.results
        read = [x, self.mixed, self.old, problem.peephole, problem.start, problem.first, problem.lengths]
        for t in reversed(steps) if problem.reverse else steps:
            before = t + 1 if problem.reverse else t - 1
            if 0 <= before < len(alpha):
                torch.mm(alpha[before], problem.recurrent, out=self.mixed)
                if self.old is not None:
                    torch.mm(alpha[before], problem.states, out=self.old)
            tensors = [*read, self.u, output, memory, last]
            launch(gates_of_step, problem.rows, tensors, [t, steps.start, *integers], self.gates)
            if self.quiet:
                torch.mm(self.u, problem.states.T, out=alpha[t])
            else:
                alpha[t].addmm_(self.u, problem.states.T)
            tensors = [alpha, soft, problem.temperature]
            launch(states_of_step, problem.rows, tensors, [t, problem.rows], self.choice)
