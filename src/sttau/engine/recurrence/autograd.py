"""The factored recurrence in PyTorch's graph, in two forms.

As operators with shapes known beforehand, for ``torch.compile`` and ``torch.export``; U is then plain PyTorch outside
the operator. And as a plain autograd function, which computes U inside, for everything else: on a short sequence the
dispatcher and the graph's nodes for U would take longer than the recurrence.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import torch
import torch.nn.functional as F
from torch import Tensor

from sttau.engine import backend
from sttau.engine.constants import cached_constant
from sttau.engine.derivatives import check_first_order, first_order
from sttau.engine.recurrence.problem import Gradients, Needs, Problem, Results


@cached_constant
def _constant_zeros(rows: int, columns: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    return torch.zeros(rows, columns, dtype=dtype, device=device)


def zeros(rows: int, columns: int, like: Tensor) -> Tensor:
    """Zeros that must not be written to."""
    return _constant_zeros(rows, columns, like.dtype, like.device)


def _engine(name: str) -> Any:
    return backend.kernels("recurrence", name)


def call(
    weight: Tensor, bias: Tensor | None, hidden: Tensor | None, problem: Problem, engine: str
) -> tuple[Tensor, Tensor, Tensor]:
    """Run a problem whose U and start are computed here from W_h, b_h and h_0; returns α, u and the last memory."""
    recording, compiling = torch.is_grad_enabled(), torch.compiler.is_compiling()
    if recording and hidden is None and not compiling:
        return _apply(weight, bias, *problem, engine)
    problem = _with_weight(problem, weight, bias, hidden)
    if compiling:
        return cast(tuple[Tensor, Tensor, Tensor], torch.ops.sttau.recurrence(*problem, recording, engine)[:3])
    if recording:
        return _apply(None, None, *problem, engine)
    results: Results = _engine(engine).forward(problem, False)
    return results[:3]


def _with_weight(problem: Problem, weight: Tensor, bias: Tensor | None, hidden: Tensor | None) -> Problem:
    if hidden is not None:
        start = F.linear(hidden, weight, bias).contiguous()
    else:
        start = zeros(1, len(weight), weight) if bias is None else bias[None]
    return problem._replace(recurrent=F.linear(problem.states, weight, bias), start=start)


class _Plain(torch.autograd.Function):
    """The recurrence; where W_h and b_h are given, U and the start are computed here."""

    @staticmethod
    def forward(ctx: Any, weight: Tensor | None, bias: Tensor | None, *inputs: Any) -> tuple[Tensor, Tensor, Tensor]:
        *fields, engine = inputs
        problem = Problem(*fields)
        if weight is not None:
            problem = _with_weight(problem, weight, bias, None)
        results: Results = _engine(engine).forward(problem, True)
        ctx.settings, ctx.engine = problem[_TENSORS:], engine
        ctx.has_bias = bias is not None
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(weight, *problem[:_TENSORS], results.alpha, *results[3:])
        return results[:3]

    @staticmethod
    @first_order
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        weight, *tensors = ctx.saved_tensors
        alpha, *saved = tensors[_TENSORS:]
        found: Gradients = _engine(ctx.engine).backward(
            Problem(*tensors[:_TENSORS], *ctx.settings),
            Results(alpha, alpha, alpha, *saved),  # what was returned is not read again
            *(None if grad is None else grad.contiguous() for grad in grads),
            Needs(ctx.needs_input_grad[2], ctx.needs_input_grad[11]),
            weight,
        )
        x, input, input_bias, recurrent, states, temperature, peephole, start, first = found
        unread = _unread(alpha, grads)
        whole = weight is not None
        return (
            recurrent if whole else None,
            start[0] if ctx.has_bias else None,
            x,
            None,
            input,
            input_bias,
            None if whole or len(alpha) == 1 else recurrent,  # a single step reads no U
            None if unread else states,
            None if unread else temperature,
            peephole,
            None if whole else start,
            first,
            *(None,) * (len(Problem._fields) - 10 + 1),
        )


_TENSORS = 14  # the leading fields of a problem, which are tensors
_apply = cast(Callable[..., tuple[Tensor, Tensor, Tensor]], _Plain.apply)


def _remember(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    *problem, _, engine = inputs
    ctx.given = [field is not None for field in problem[:_TENSORS]]
    ctx.settings = (*problem[_TENSORS:], engine)
    alpha, _, _, *saved = output
    ctx.mark_non_differentiable(*saved)
    ctx.set_materialize_grads(False)
    ctx.save_for_backward(*(field for field in problem[:_TENSORS] if field is not None), alpha, *saved)


def _differentiate(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
    check_first_order()
    needs = Needs(ctx.needs_input_grad[0], ctx.needs_input_grad[9])
    given = [*ctx.given, True, True, True, True, *(grad is not None for grad in grads[:3])]
    tensors = [*ctx.saved_tensors, *(grad.contiguous() for grad in grads[:3] if grad is not None)]
    found = iter(torch.ops.sttau.recurrence_backward(tensors, given, *ctx.settings, *needs))
    wanted = [needs.x, False, *ctx.given[2:9], needs.first]
    gradients = [next(found) if want else None for want in wanted]
    if _unread(ctx.saved_tensors[-4], grads):
        gradients[5:7] = None, None
    return (*gradients, *(None,) * (len(Problem._fields) - 10 + 2))


def _unread(alpha: Tensor, grads: tuple[Tensor | None, ...]) -> bool:
    """Whether the result depends neither on S nor on τ: a single step, of which only u is read.

    They then have no gradient, as in the reference, so that an optimizer leaves them alone on every engine.
    """
    return len(alpha) == 1 and grads[0] is None


@torch.library.custom_op("sttau::recurrence", mutates_args=())
def _recurrence(
    x: Tensor,
    index: Tensor | None,
    input: Tensor,
    input_bias: Tensor | None,
    recurrent: Tensor,
    states: Tensor,
    temperature: Tensor,
    peephole: Tensor | None,
    start: Tensor,
    first: Tensor,
    lengths: Tensor | None,
    seed: Tensor | None,
    sequence: Tensor | None,
    sample: Tensor | None,
    rows: int,
    first_step: int,
    layer: int,
    cell: str,
    mode: str,
    reverse: bool,
    read: str,
    keep: bool,
    engine: str,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    problem = Problem(
        x, index, input, input_bias, recurrent, states, temperature, peephole, start, first, lengths,
        seed, sequence, sample, rows, first_step, layer, cell, mode, reverse, read,
    )  # fmt: skip
    return cast(
        tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor],
        tuple(_engine(engine).forward(problem, keep)),
    )


@_recurrence.register_fake
def _(  # type: ignore[no-untyped-def]
    x, index, input, input_bias, recurrent, states, temperature, peephole, start, first, lengths, seed, sequence,
    sample, rows, first_step, layer, cell, mode, reverse, read, keep, engine,
):  # fmt: skip
    time = (x if index is None else index).shape[0]
    k, d = states.shape
    new = states.new_empty
    problem = Problem(
        x, index, input, input_bias, recurrent, states, temperature, peephole, start, first, lengths,
        seed, sequence, sample, rows, first_step, layer, cell, mode, reverse, read,
    )  # fmt: skip
    return (
        new(time, rows, k),
        x.new_empty({"none": 0, "last": 1, "all": time}[read], rows, d),
        new(rows if cell == "lstm" else 0, d),
        new(time if keep and mode == "hard" else 0, rows, k),
        new(time if keep and cell == "lstm" else 0, rows, d),
        new(_engine(engine).projected_shape(problem, keep)),
    )


@torch.library.custom_op("sttau::recurrence_backward", mutates_args=())
def _recurrence_backward(
    tensors: list[Tensor],
    given: list[bool],
    rows: int,
    first_step: int,
    layer: int,
    cell: str,
    mode: str,
    reverse: bool,
    read: str,
    engine: str,
    needs_x: bool,
    needs_first: bool,
) -> list[Tensor]:
    supply = iter(tensors)
    fields: list[Any] = [next(supply) if is_given else None for is_given in given]
    alpha, soft, memory, projected, *grads = fields[_TENSORS:]
    found: Gradients = _engine(engine).backward(
        Problem._make([*fields[:_TENSORS], rows, first_step, layer, cell, mode, reverse, read]),
        Results(alpha, alpha, alpha, soft, memory, projected),
        *grads,
        Needs(needs_x, needs_first),
    )
    # An operator's results must not share memory.
    return [gradient.clone() for gradient in found if gradient is not None]


@_recurrence_backward.register_fake
def _(  # type: ignore[no-untyped-def]
    tensors, given, rows, first_step, layer, cell, mode, reverse, read, engine, needs_x, needs_first
):
    supply = iter(tensors)
    x, _, *rest, first = [next(supply) if is_given else None for is_given in given][:10]
    wanted = ([x] if needs_x else []) + rest + ([first] if needs_first else [])
    return [torch.empty_like(field) for field in wanted if field is not None]


torch.library.register_autograd("sttau::recurrence", _differentiate, setup_context=_remember)
