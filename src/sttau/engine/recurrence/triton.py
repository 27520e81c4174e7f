"""The factored recurrence on a GPU, in Triton; the kernels are in ``triton_resident.py`` and three other files.

Rows do not interact, so a program owns one, or several, there is no synchronization between programs, and one launch
does many steps. Time is processed in pieces, so that the wide buffers (projected input, gradients of the gates) never
exist for the whole length; what is saved for the backward pass is α and, for an LSTM, its memory. Everything that is
not serial (projections, sums over time of outer products) is a matrix product. No atomics are used: results are the
same from run to run.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar, cast

import torch
import triton
from torch import Tensor
from torch.nn import functional as F

from sttau.engine.launch import launch
from sttau.engine.noise.triton import write_gumbel
from sttau.engine.recurrence import triton_plan, triton_resident, triton_streamed, triton_tiled
from sttau.engine.recurrence.problem import Gradients, Needs, Problem, Results, as_rows, linear, through_weight
from sttau.engine.recurrence.triton_steps import Steps

_RESIDENT_FEATURES = 2  # up to this many features are projected inside the kernel
_THROUGH_WEIGHT = 16  # most states of the kernel through_weight
_PIECES = 3  # pieces of time per sequence; 2 where the kernel projects
_PIECE_VALUES = 1 << 19  # fewest values of one gate in a piece
_FORWARD_VALUES = 1 << 24  # the same where no backward pass will follow

_FORWARD: dict[str, Any] = {
    "resident": triton_resident.forward_resident,
    "tiled": triton_tiled.forward_tiled,
    "streamed": triton_streamed.forward_streamed,
}
_BACKWARD: dict[str, Any] = {
    "resident": triton_resident.backward_resident,
    "tiled": triton_tiled.backward_tiled,
    "streamed": triton_streamed.backward_streamed,
}

Function = TypeVar("Function", bound=Callable[..., Any])


def _plan(problem: Problem, blocks: int, more: dict[str, Any]) -> tuple[dict[str, Any], str]:
    """Compile-time values of a kernel, and its kind; ``blocks`` of (k, d) are read at every step."""
    k, d = problem.states.shape
    kind = triton_plan.kind(k, d, blocks)
    features, gru, backward = problem.x.shape[-1], problem.cell == "gru", "QUIET" not in more
    options: dict[str, Any] = {
        "d": d,
        "K": k,
        "D": triton_plan.power_of_2(d),
        "GRU": gru,
        "HARD": problem.mode == "hard",
        "REVERSE": problem.reverse,
        "READ": ("none", "last", "all").index(problem.read),
        "PEEPHOLE": problem.peephole is not None,
    } | more
    if kind == "tiled":
        options.pop("CARRY", None)  # they always add to what is there
        return options | triton_plan.tiled(k, d, problem.rows, 3 if gru else 4, backward=backward), kind
    options["F"] = 0
    if kind == "streamed":
        return options | triton_plan.streamed(k, d, backward=backward), kind
    options["F"] = features if problem.index is None and features <= _RESIDENT_FEATURES else 0
    options["num_warps"] = triton_plan.resident_warps(k, d, problem.rows)
    return options, kind


def _pieces(problem: Problem, time: int, inside: bool, keep: bool = True) -> list[tuple[int, int]]:
    """Pieces of time in reading order: few where nothing is saved."""
    row = problem.rows * problem.states.shape[1]
    count = _PIECES - inside
    size = max(-(-time // count), -(-_PIECE_VALUES // row)) if keep else -(-_FORWARD_VALUES // row)
    pieces = [(begin, min(begin + size, time)) for begin in range(0, time, size)]
    return pieces[::-1] if problem.reverse else pieces


def _stride(tensor: Tensor) -> int:
    """From one row to the next; 0 where all rows share one."""
    return 0 if len(tensor) == 1 else tensor.stride(0)


def _on_device(function: Function) -> Function:
    """Kernels run on the current GPU: make it the one that holds the problem."""

    @wraps(function)
    def call(problem: Problem, *args: Any) -> Any:
        if not problem.x.is_cuda or problem.x.device.index == torch.cuda.current_device():
            return function(problem, *args)
        with torch.cuda.device(problem.x.device):
            return function(problem, *args)

    return cast(Function, call)


def projected_shape(problem: Problem, keep: bool) -> tuple[int, ...]:
    """Nothing is saved: a matrix product is cheaper here than the memory it would fill."""
    return (0,)


@_on_device
def forward(problem: Problem, keep: bool) -> Results:
    """Run the recurrence; see :class:`~sttau.engine.recurrence.problem.Problem`."""
    rows, (k, d) = problem.rows, problem.states.shape
    time, batch = problem.x.shape[:2] if problem.index is None else problem.index.shape
    new = problem.states.new_empty
    alpha = new(time, rows, k)
    output = problem.x.new_empty({"none": 0, "last": 1, "all": time}[problem.read], rows, d)
    soft = new(time if keep and problem.mode == "hard" else 0, rows, k)
    memory = new(time if keep and problem.cell == "lstm" else 0, rows, d)
    last = new(rows if problem.cell == "lstm" else 0, d)
    options, kind = _plan(problem, 5, {"QUIET": problem.mode == "deterministic", "KEEP": keep})
    kernel = _FORWARD[kind]
    results = Results(alpha, output, last, soft, memory, projected=new(projected_shape(problem, keep)))
    by_steps = Steps(problem, results, options) if kind != "resident" and rows > triton_plan.MANY_ROWS else None
    weights = [_across(problem.states)] if kind == "tiled" else [problem.input, problem.input_bias]
    if problem.seed is not None and problem.sequence is not None and problem.sample is not None:
        write_gumbel(alpha, problem.seed, problem.sequence, problem.sample, problem.first_step, problem.layer)
    inside = bool(options.get("F"))
    table = None if problem.index is None else linear(problem.x, problem.input, problem.input_bias)
    pieces = [(0, time)] if inside else _pieces(problem, time, inside, keep)
    buffer = None
    if table is None and not inside:
        steps = max(end - begin for begin, end in pieces)
        buffer = problem.x.new_empty(steps * batch, len(problem.input))
    for begin, end in pieces:
        if buffer is not None:
            flat = problem.x[begin:end].view(-1, problem.x.shape[-1])
            _linear_into(buffer[: len(flat)], flat, problem.input, problem.input_bias)
            x, stride = buffer, len(problem.input)
        elif table is not None and problem.index is not None:
            x = table[problem.index[begin:end]]
            stride = x.stride(1)
        else:
            x, stride = problem.x, problem.x.stride(1)
        tensors = [
            x, *weights, problem.recurrent, problem.states, problem.temperature,
            problem.peephole, problem.start, problem.first, problem.lengths, alpha, soft, output, memory, last,
        ]  # fmt: skip
        integers = [time, batch, rows, stride, _stride(problem.start), _stride(problem.first)]
        if by_steps is None:
            launch(kernel, triton.cdiv(rows, options.get("R", 1)), tensors, [begin, end, *integers], options)
        else:
            by_steps.run(x, range(begin, end), *integers)
    if problem.lengths is not None:  # nothing was computed beyond a row's length
        beyond = torch.arange(time, device=alpha.device)[:, None] >= as_rows(problem.lengths, rows)
        alpha.masked_fill_(beyond[:, :, None], 0)
        if problem.read == "all":
            output.masked_fill_(beyond[:, :, None], 0)
    return results


@_on_device
def backward(
    problem: Problem,
    results: Results,
    grad_alpha: Tensor | None,
    grad_output: Tensor | None,
    grad_last: Tensor | None,
    needs: Needs,
    weight: Tensor | None = None,
) -> Gradients:
    """Gradients of everything; see :class:`~sttau.engine.recurrence.problem.Gradients`.

    The kernel writes, for every step, what the gates' gradients are to be multiplied with: α of the step before, the
    gradient of the logits, a one (for the bias), a one in the first step (for ``start``) and, where there are few, the
    features. One matrix product of these coefficients with the ``wide`` buffer (gate gradients and u) then sums all
    outer products over time. With many states, the gradient of the logits comes last, the kernel writes nothing else,
    and there are two products: of that with u, and of the others with the gates.
    """
    rows, (k, d) = problem.rows, problem.states.shape
    time, batch, features = problem.x.shape
    gru = problem.cell == "gru"
    width, cell = (3 * d, 5 * d) if gru else (4 * d, 4 * d)  # width of the gates, and the position of u after them
    options, kind = _plan(problem, 6, {"CARRY": False})
    inside, tiled = bool(options.get("F")), kind == "tiled"
    pieces = _pieces(problem, time, inside)[::-1]
    in_place = tiled or (not inside and rows == batch and problem.x.dtype == torch.float32)
    kernel = _BACKWARD[kind]
    ragged = problem.lengths is not None
    carry = ragged or kind != "resident"  # a row may have no step in the first piece
    if grad_output is None:
        options["READ"] = 0
    new, zeros = problem.states.new_empty, problem.states.new_zeros
    fresh = zeros if carry else new
    coefficients = (zeros if ragged else new)((time, rows, 2 * k + 2 + options.get("F", 0)))
    carry_alpha, grad_temperature = fresh((rows, k)), fresh(rows)
    grad_start = new(rows, width) if len(problem.start) > 1 else None
    grad_first = None
    if needs.first or (not gru and len(pieces) > 1):  # an LSTM's memory gradient passes from piece to piece here
        grad_first = fresh((rows, d)) if gru or grad_last is None else grad_last.clone()
    carry_memory = grad_last if grad_first is None else grad_first if carry or grad_last is not None else None
    grad_x = torch.empty_like(problem.x) if needs.x else None
    grad_input, sums = new(0 if inside else width, features), new(coefficients.shape[2], cell + d)
    grad_peephole = None if problem.peephole is None else fresh((rows, 3, d))

    buffer = new(max(end - begin for begin, end in pieces), rows, cell + d)
    ones, logits = (k, k + 2) if tiled else (2 * k, k)  # their positions among the coefficients
    mixture = _Mixture(problem, results.alpha) if tiled else None
    if mixture is not None:
        mixture.write_coefficients(coefficients)
    for number, (begin, end) in enumerate(pieces):
        wide = buffer[: end - begin]
        flat = wide.view(-1, cell + d)
        if ragged:
            wide.zero_()
        source = problem.x[begin:end]
        if inside:
            x = source
        elif mixture is not None:
            x = wide
            mixture.write(wide, source, begin)
        elif in_place:  # a step's projected input is overwritten by its gradient
            x = wide
            _linear_into(flat[:, :width], source.view(-1, features), problem.input, problem.input_bias)
        else:
            x = linear(source, problem.input, problem.input_bias)
        shared = [problem.temperature, problem.peephole, problem.start, problem.first, problem.lengths]
        shared += [results.alpha, results.soft, results.memory, grad_alpha, grad_output, wide, coefficients]
        shared += [carry_alpha, carry_memory, grad_temperature, grad_peephole, grad_start, grad_first]
        integers = [begin, end, time, batch, rows, x.stride(1), _stride(problem.start), _stride(problem.first)]
        if mixture is None:
            tensors = [x, problem.input, problem.input_bias, problem.recurrent, problem.states, *shared]
        else:
            tensors = [mixture.across, problem.states, *shared]
            del integers[5]
        if not tiled:
            options["CARRY"] = carry or number > 0
        launch(kernel, triton.cdiv(rows, options.get("R", 1)), tensors, integers, options)
        carry_memory = grad_first
        if problem.lengths is not None and in_place:  # the projected input beyond a row's length is no gradient
            step = torch.arange(begin, end, device=wide.device)[:, None]
            wide.masked_fill_((step >= as_rows(problem.lengths, rows))[:, :, None], 0)
        left = coefficients[begin:end].view(-1, len(sums)).T
        if tiled:  # the other two blocks are not needed
            _multiply(sums[:logits, :cell], left[:logits], flat[:, :cell], number)
            _multiply(sums[logits:, cell:], left[logits:], flat[:, cell:], number)
        else:
            _multiply(sums, left, flat, number)
        if not inside or needs.x:
            gate = flat[:, :width]
            if rows > batch:  # samples share their input
                gate = gate.reshape(end - begin, rows // batch, batch, width).sum(1).view(-1, width)
            gate = gate.to(problem.input.dtype)
            if not inside:
                _multiply(grad_input, gate.T, source.view(-1, features), number)
            if grad_x is not None:
                torch.mm(gate, problem.input, out=grad_x[begin:end].view(-1, features))

    gradients = Gradients(
        x=grad_x,
        input=(sums[2 * k + 2 :, :width].T if inside else grad_input).to(problem.input.dtype),
        input_bias=None if problem.input_bias is None else sums[ones, :width].to(problem.input_bias.dtype),
        recurrent=sums[:k],
        states=sums[logits : logits + k, cell:],
        temperature=grad_temperature,
        peephole=None if grad_peephole is None else grad_peephole.sum(0),
        start=sums[ones + 1 : ones + 2] if grad_start is None else grad_start,
        first=_summed(grad_first, len(problem.first)) if needs.first else None,
    )
    if weight is not None and not tiled and k <= _THROUGH_WEIGHT and len(problem.start) == 1:
        return _through_weight(gradients, sums, problem, weight)
    recurrent, start, states = gradients.recurrent, gradients.start, gradients.states
    if gru:  # gates and u are at other positions there
        states = states + recurrent[:, 4 * d : 5 * d]
        recurrent = torch.cat([recurrent[:, : 2 * d], recurrent[:, 3 * d : 4 * d]], dim=1)
        if grad_start is None:
            start = torch.cat([start[:, : 2 * d], start[:, 3 * d : 4 * d]], dim=1)
    gradients = gradients._replace(
        recurrent=recurrent[:, :width], states=states, start=start[:, :width], temperature=grad_temperature.sum()
    )
    return gradients if weight is None else through_weight(gradients, problem.states, weight)


def _across(matrix: Tensor) -> Tensor:
    """The transpose, with lines that begin at addresses divisible by 16."""
    return F.pad(matrix.T, (0, -len(matrix) % 4)).contiguous()


class _Mixture:
    """What the gates of all steps read, for the tiled backward pass: α is known there, so it is a matrix product.

    Args:
        problem: Layer and input.
        alpha: α of all steps, (time, rows, k).
    """

    def __init__(self, problem: Problem, alpha: Tensor) -> None:
        self.problem, self.alpha, self.d = problem, alpha, problem.states.shape[1]
        self.gru = problem.cell == "gru"
        weights = torch.cat([problem.recurrent, problem.states], dim=1) if self.gru else problem.recurrent
        self.across, self.weights = _across(weights), weights

    def write_coefficients(self, into: Tensor) -> None:
        """Write all but the gradients of the logits; ``wide`` is zero where a row has no step."""
        problem, k, (time, rows, _) = self.problem, len(self.problem.states), into.shape
        into[:, :, k] = 1
        into[:, :, k + 1] = 0
        if problem.reverse:
            into[:-1, :, :k], into[-1, :, :k] = self.alpha[1:], 0
        else:
            into[1:, :, :k], into[0, :, :k] = self.alpha[:-1], 0
        if problem.reverse and problem.lengths is not None:
            last = as_rows(problem.lengths, rows) - 1
            into[last.clamp(min=0), torch.arange(rows, device=last.device), k + 1] = (last >= 0).to(into.dtype)
        else:
            into[time - 1 if problem.reverse else 0, :, k + 1] = 1

    def write(self, wide: Tensor, source: Tensor, begin: int) -> None:
        """Write x W_xᵀ + b + α U into the blocks of ``wide``; for a GRU, U_n α and Sᵀα have blocks of their own."""
        problem, d = self.problem, self.d
        (steps, rows, _), width, split = wide.shape, len(problem.input), 2 * d if self.gru else 4 * d
        if source.dtype == wide.dtype and rows == source.shape[1]:
            flat = wide.view(steps * rows, -1)[:, :width]
            _linear_into(flat, source.reshape(len(flat), -1), problem.input, problem.input_bias)
        else:  # samples share their input
            x = linear(source, problem.input, problem.input_bias)
            wide.view(steps, -1, source.shape[1], wide.shape[2])[..., :width] = x[:, None]
        move = -1 if problem.reverse else 1
        low, high = max(begin, move), min(begin + steps, len(self.alpha) + min(move, 0))  # steps that have one before
        if self.gru:
            wide[:, :, 3 * d : 5 * d] = 0
        if low < high:
            into = wide[low - begin : high - begin].view((high - low) * rows, -1)
            before = self.alpha[low - move : high - move].view(len(into), -1)
            into[:, :split].addmm_(before, self.weights[:, :split])
            if self.gru:
                torch.mm(before, self.weights[:, split:], out=into[:, 3 * d : 5 * d])


def _through_weight(gradients: Gradients, sums: Tensor, problem: Problem, weight: Tensor) -> Gradients:
    """The remaining gradients, in one launch: :func:`~sttau.engine.recurrence.problem.through_weight`, and sums."""
    (k, d), gru, new = problem.states.shape, problem.cell == "gru", problem.states.new_empty
    of_weight, of_bias, of_states, of_temperature = new(weight.shape), new(1, len(weight)), new(k, d), new(())
    tensors = [sums, problem.states, weight, gradients.temperature, of_weight, of_bias, of_states, of_temperature]
    options = {"d": d, "K": k, "GRU": gru, "num_warps": 4}
    tiles = triton.cdiv(len(weight), 64) * triton.cdiv(d, 64)
    launch(triton_resident.through_weight, tiles + triton.cdiv(d, 16) + 1, tensors, [problem.rows], options)
    return gradients._replace(recurrent=of_weight, start=of_bias, states=of_states, temperature=of_temperature)


def _summed(gradient: Tensor | None, rows: int) -> Tensor | None:
    return gradient if gradient is None or rows > 1 else gradient.sum(0, keepdim=True)


def _multiply(into: Tensor, left: Tensor, right: Tensor, number: int) -> None:
    """Write the first product, and add the later ones."""
    if left.dtype != into.dtype:
        product = left @ right
        into.copy_(product) if number == 0 else into.add_(product)
    elif number == 0:
        torch.mm(left, right, out=into)
    else:
        into.addmm_(left, right)


def _linear_into(out: Tensor, x: Tensor, weight: Tensor, bias: Tensor | None) -> None:
    if bias is None:
        torch.mm(x, weight.T, out=out)
    else:
        torch.addmm(bias, x, weight.T, out=out)
