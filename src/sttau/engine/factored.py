"""The factored recurrence: what a fast engine must compute, and its place in PyTorch's autograd.

h_{t-1} is a mixture of k states, so the recurrent product never needs the d × d matrix:

    W_h h_{t-1} + b_h = Uᵀ α_{t-1},    U = S W_hᵀ + b_h    (k × G·d; Σ α = 1 lets the bias live in every row)

A :class:`Problem` is one layer in one direction in this form. An engine is two functions, ``forward(problem, keep)``
and ``backward(problem, results, …)``, and ``projected_shape(problem, keep)``, the shape of ``Results.projected``;
``engine/cpu.py`` and ``engine/triton.py`` have them. They are wrapped here as PyTorch operators with shapes known
beforehand, so that ``torch.compile``, ``torch.export`` and CUDA graphs can hold
them. U, the last hidden state and the readout h_t = Sᵀ α_t are plain PyTorch around the operator, and so are their
gradients.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any, NamedTuple, cast

import torch
import torch.nn.functional as F
from torch import Tensor

from sttau.engine.constants import kept
from sttau.engine.noise import Noise
from sttau.engine.reference import Cell, Mode, Readout, Run, Steps, Weights, count_rows
from sttau.padding import clear_padding


class Problem(NamedTuple):
    """One layer in one direction. Time stands first; row r reads sequence r mod B; G is 4 (LSTM) or 3 (GRU)."""

    x: Tensor  # (T, B, F) features; with ``index``, (V, F): one vector for every token
    index: Tensor | None  # type: ignore[assignment]  # (T, B) int64: which vector a step reads
    input: Tensor  # (G·d, F)
    input_bias: Tensor | None  # (G·d,)
    recurrent: Tensor  # U, (k, G·d)
    states: Tensor  # S, (k, d)
    temperature: Tensor  # τ, a scalar
    peephole: Tensor | None  # (3, d)
    start: Tensor  # (1 or rows, G·d): W_h h_0 + b_h, in place of Uᵀ α in a row's first step
    first: Tensor  # (1 or rows, d): c_0 of an LSTM, h_0 of a GRU
    lengths: Tensor | None  # (B,) int64
    seed: Tensor | None  # scalar int64; none of the three in deterministic mode
    sequence: Tensor | None  # (rows,) int64
    sample: Tensor | None  # (rows,) int64
    rows: int
    first_step: int
    layer: int
    cell: str
    mode: str
    reverse: bool
    read: str  # which u_t to return: "none", "last" or "all"


class Results(NamedTuple):
    """What ``forward`` returns; the last three are for ``backward`` alone."""

    alpha: Tensor  # (T, rows, k): the α that makes h_t; zero beyond a row's length
    output: Tensor  # u: (T, rows, d), zero beyond the length; (1, rows, d) of the step read last; or (0, rows, d)
    last: Tensor  # LSTM: (rows, d), c after the step read last; GRU: (0, d)
    soft: Tensor  # (T, rows, k): soft α where ``alpha`` is hard; else (0, rows, k)
    memory: Tensor  # LSTM: (T, rows, d), c_t; else (0, rows, d)
    projected: Tensor  # of the input, what the engine would not compute twice, laid out as it likes; may be empty


class Needs(NamedTuple):
    """Which of the costlier gradients are wanted."""

    x: bool
    first: bool


class Gradients(NamedTuple):
    """What ``backward`` returns: the gradients of the fields of a problem, in their shapes; None where not needed."""

    x: Tensor | None
    input: Tensor
    input_bias: Tensor | None
    recurrent: Tensor
    states: Tensor  # of S in the logits S u and, for a GRU, in h_{t-1} = Sᵀ α_{t-1}; not in U
    temperature: Tensor
    peephole: Tensor | None
    start: Tensor
    first: Tensor | None


def linear(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """``F.linear`` that always takes the one-product path: (…, F) gives (…, G·d)."""
    flat = x.reshape(-1, x.shape[-1])
    product = flat @ weight.T if bias is None else torch.addmm(bias, flat, weight.T)
    return product.reshape(*x.shape[:-1], len(weight))


@kept
def constant_zeros(rows: int, columns: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    """Zeros that nobody writes to."""
    return torch.zeros(rows, columns, dtype=dtype, device=device)


def as_rows(lengths: Tensor, rows: int) -> Tensor:
    """One entry a sequence to one entry a row."""
    return lengths.repeat(rows // len(lengths))


def run(
    engine: str,
    cell: Cell,
    inputs: Tensor,
    weights: Weights,
    hidden: Tensor | None,
    memory: Tensor | None,
    *,
    noise: Noise | None,
    mode: Mode,
    readout: Readout,
    lengths: Tensor | None,
    reverse: bool,
    steps: Steps,
    embedding: Tensor | None,
    final: bool,
) -> Run:
    """The recurrence of :func:`sttau.engine.reference.run` on the engine named, with the same arguments.

    Unless ``final``, the last hidden state is not computed and an empty tensor stands for it.
    """
    if mode != "deterministic" and noise is None:
        raise ValueError(f"mode={mode!r} needs noise; pass noise=Noise.of(...)")
    vectors = inputs if embedding is None else embedding
    dtype = vectors.dtype
    work = torch.promote_types(dtype, torch.float32)  # bfloat16 is storage; the state is kept in float32
    rows = count_rows(len(inputs), hidden, memory, noise)
    if lengths is not None:
        lengths = lengths.to(inputs.device)
        inputs = clear_padding(inputs, lengths)  # whatever stands there, NaN included, must not reach a product
    x, index = inputs.transpose(0, 1), None
    if embedding is not None:
        x, index = _tokens(x, embedding, engine)

    if dtype != work and engine == "cpu":
        x, weights = x.to(work), weights._replace(input=weights.input.to(work))
    if dtype != work:
        weights = Weights(weights.input, *(None if given is None else given.to(work) for given in weights[1:]))  # type: ignore[arg-type]
        hidden = None if hidden is None else hidden.to(work)
        memory = None if memory is None else memory.to(work)
    states = weights.states
    nothing = constant_zeros(1, states.shape[1], states.dtype, states.device)
    if hidden is not None:
        start = F.linear(hidden, weights.recurrent, weights.recurrent_bias)
    elif weights.recurrent_bias is not None:
        start = weights.recurrent_bias[None]
    else:
        start = constant_zeros(1, len(weights.recurrent), states.dtype, states.device)
    first = hidden if cell == "gru" else memory
    draws = None if mode == "deterministic" else noise
    alpha, output, last, *_ = _call(
        x.contiguous(),
        index if index is None else index.contiguous(),
        weights.input.contiguous(),
        weights.input_bias if weights.input_bias is None else weights.input_bias.to(x.dtype),
        F.linear(states, weights.recurrent, weights.recurrent_bias),
        states.contiguous(),
        weights.temperature,
        weights.peephole if weights.peephole is None else weights.peephole.contiguous(),
        start.contiguous(),
        nothing if first is None else first.contiguous(),
        lengths,
        None if draws is None else draws.seed,
        None if draws is None else draws.sequence,
        None if draws is None else draws.sample,
        rows,
        0 if draws is None else draws.first_step,
        0 if draws is None else draws.layer,
        cell,
        mode,
        reverse,
        "none" if readout == "state" else steps,
        torch.is_grad_enabled(),
        engine,
    )

    def hidden_at_end() -> Tensor:
        if reverse:
            ended = alpha[0]
        elif lengths is None:
            ended = alpha[-1]
        else:
            place = (as_rows(lengths, rows) - 1)[None, :, None].expand(1, -1, alpha.shape[2])
            ended = alpha.gather(0, place)[0]
        return (ended @ states).to(dtype)

    if readout == "state":
        output = (alpha @ states).transpose(0, 1).to(dtype) if steps == "all" else hidden_at_end()[:, None]
    else:
        output = output.transpose(0, 1).to(dtype)
    return Run(
        output=output,
        hidden=hidden_at_end() if final else states.new_empty(0, states.shape[1]),
        memory=last.to(dtype) if cell == "lstm" else None,
        transitions=alpha.transpose(0, 1).to(dtype),
    )


def _tokens(index: Tensor, embedding: Tensor, engine: str) -> tuple[Tensor, Tensor | None]:
    """Vectors to project, and which of them each step reads; (T, B) ids and the (V, F) table.

    Every vector is projected once, however often its token occurs. On a CPU only those that occur are; on a GPU, where
    finding them would make the host wait, it is all of them (no gradients, and more tokens than vectors) or none.
    """
    if engine == "cpu":
        occurs = torch.zeros(len(embedding), dtype=torch.bool)
        occurs[index.reshape(-1)] = True
        place = occurs.cumsum(0) - 1
        return embedding[occurs.nonzero()[:, 0]], place[index]
    if index.numel() > len(embedding) and not torch.is_grad_enabled():
        return embedding, index
    return F.embedding(index, embedding), None


# -- in PyTorch's autograd, as an operator and plainly -----------------------------------------------------------------


def _engine(name: str) -> Any:
    return import_module(f"sttau.engine.{name}")


def _forward(*inputs: Any) -> tuple[Tensor, ...]:
    *fields, keep, engine = inputs
    results: Results = _engine(engine).forward(Problem(*fields), keep)
    return tuple(results)


def _remember(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    *problem, _, engine = inputs
    ctx.given = [field is not None for field in problem[:_TENSORS]]
    ctx.settings = (*problem[_TENSORS:], engine)
    alpha, _, _, *kept = output
    ctx.mark_non_differentiable(*kept)
    ctx.set_materialize_grads(False)
    ctx.save_for_backward(*(field for field in problem[:_TENSORS] if field is not None), alpha, *kept)


def _backward(ctx: Any, operator: Any, grads: tuple[Tensor | None, ...]) -> tuple[Tensor | None, ...]:
    needs = Needs(ctx.needs_input_grad[0], ctx.needs_input_grad[9])
    given = [*ctx.given, True, True, True, True, *(grad is not None for grad in grads[:3])]
    tensors = [*ctx.saved_tensors, *(grad.contiguous() for grad in grads[:3] if grad is not None)]
    found = iter(operator(tensors, given, *ctx.settings, *needs))
    wanted = [needs.x, False, *ctx.given[2:9], needs.first]
    return (*(next(found) if want else None for want in wanted), *(None,) * 13)


def _gradients(tensors: list[Tensor], given: list[bool], *settings: Any) -> list[Tensor]:
    *problem, engine, needs_x, needs_first = settings
    supply = iter(tensors)
    fields: list[Any] = [next(supply) if is_given else None for is_given in given]
    alpha, soft, memory, projected, grad_alpha, grad_output, grad_last = fields[_TENSORS:]
    empty = alpha.new_empty(0)  # what was returned is not looked at again
    gradients: Gradients = _engine(engine).backward(
        Problem(*fields[:_TENSORS], *problem),
        Results(alpha, empty, empty, soft, memory, projected),
        grad_alpha,
        grad_output,
        grad_last,
        Needs(needs_x, needs_first),
    )
    return [gradient for gradient in gradients if gradient is not None]


_TENSORS = 14  # fields of a problem that are tensors: the first


class _Plain(torch.autograd.Function):
    """The same without the operator, whose way through the dispatcher takes longer than a short sequence does."""

    @staticmethod
    def forward(ctx: Any, *inputs: Any) -> tuple[Tensor, ...]:
        output = _forward(*inputs)
        _remember(ctx, inputs, output)
        return output

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        return _backward(ctx, _gradients, grads)


_apply = cast(Callable[..., tuple[Tensor, ...]], _Plain.apply)


def _call(*inputs: Any) -> tuple[Tensor, ...]:
    if torch.compiler.is_compiling():
        return cast(tuple[Tensor, ...], torch.ops.sttau.recurrence(*inputs))
    return _apply(*inputs) if torch.is_grad_enabled() else _forward(*inputs)


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
    return _forward(  # type: ignore[return-value]
        x, index, input, input_bias, recurrent, states, temperature, peephole, start, first, lengths,
        seed, sequence, sample, rows, first_step, layer, cell, mode, reverse, read, keep, engine,
    )  # fmt: skip


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
        new(time if keep and mode == "straight_through" else 0, rows, k),
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
    found = _gradients(tensors, given, rows, first_step, layer, cell, mode, reverse, read, engine, needs_x, needs_first)
    return [gradient.clone() for gradient in found]  # an operator's results must not share memory


@_recurrence_backward.register_fake
def _(  # type: ignore[no-untyped-def]
    tensors, given, rows, first_step, layer, cell, mode, reverse, read, engine, needs_x, needs_first
):
    supply = iter(tensors)
    x, _, *rest, first = [next(supply) if is_given else None for is_given in given][:10]
    wanted = ([x] if needs_x else []) + rest + ([first] if needs_first else [])
    return [torch.empty_like(field) for field in wanted if field is not None]


torch.library.register_autograd(
    "sttau::recurrence",
    lambda ctx, *grads: _backward(ctx, torch.ops.sttau.recurrence_backward, grads),
    setup_context=_remember,
)
